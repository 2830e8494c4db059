//! The states in which an object waits, is held or is left alone, each with its meaning and its remedy.

use controllers::EventReason;
use controllers::lifecycle::preview::LifecyclePreview;
use controllers::service::Operation;
use controllers::service::condition::Reason;

/// Importance of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// The object waits, is held, or has failed.
    Waits,
    /// The state is for information only; nothing waits because of it.
    Informs,
}

macro_rules! states {
    ($($(#[$doc:meta])* $state:ident, $weight:ident, $meaning:literal, $advice:literal;)+) => {
        /// A state of a Node or Service that needs an explanation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum State {
            $($(#[$doc])* #[doc = $meaning] $state,)+
        }

        impl State {
            /// List of all states.
            pub const ALL: &[Self] = &[$(Self::$state),+];

            /// Returns the name in the output.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$state => stringify!($state),)+ }
            }

            /// Returns the importance of the state.
            #[must_use]
            pub fn weight(self) -> Weight {
                match self { $(Self::$state => Weight::$weight,)+ }
            }

            /// Returns the meaning of the state in one sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$state => $meaning,)+ }
            }

            /// Returns the remedy; empty if no action is needed.
            #[must_use]
            pub fn advice(self) -> &'static str {
                match self { $(Self::$state => $advice,)+ }
            }
        }
    };
}

states! {
    // States of both kinds.
    NobodyLeads, Waits, "No manager leads, so nothing is synced.",
        "Start the manager, or read the log of the running one; `doctor` finds the cause.";
    ControllerOff, Waits, "The controller for this object is not selected with these flags.",
        "Give `explain` the flags of the manager; if they are the same, change --controllers.";
    CapabilityMissing, Waits, "The cloud provider does not support this kind of object.",
        "Check --cloud-provider.";
    CloudUnreachable, Waits, "The cloud did not answer, or refused the request.",
        "Read the cloud's answer; `doctor` checks the credential and the connection.";

    // States of Services.
    NotALoadBalancer, Informs, "The Service is not of type LoadBalancer.",
        "Set spec.type to LoadBalancer if the Service shall have a load balancer.";
    OtherClass, Waits, "The Service belongs to another controller: its class is not one of this manager's.",
        "See the events and the log of that class's controller, or add the class to --load-balancer-classes.";
    LeftOnOtherClass, Waits, "A load balancer of this manager is left on a Service of another class.",
        "Wait: the load balancer is deleted some minutes after its address is gone from the Service's status.";
    ImplementedElsewhere, Informs, "The provider says that another controller runs this load balancer.",
        "See the events and the log of that controller.";
    NotWorkedOnYet, Waits, "No manager has worked on the Service yet: it has neither finalizer nor condition.",
        "Check that a manager leads, and that it runs service-lb-controller with the same classes.";
    NoNodes, Waits, "No Node can be a target of the load balancer.",
        "A target must be initialised, and neither excluded nor about to be removed.";
    LoadBalancerMissing, Waits, "The Service shows an address, but its load balancer does not exist in the cloud: somebody deleted it there.",
        "Restart the manager: it reads all load balancers when it starts, and creates this one again, maybe with another address. \
         With --load-balancer-drift-check-period=1h and --load-balancer-drift=repair it does so by itself.";
    EnsureFailed, Waits, "The last sync failed; it is retried with growing pauses of at most 5 minutes.",
        "If it lasts, remove the cause that the error names.";
    DeletionFailed, Waits, "The last try to delete the load balancer failed; it is retried with growing pauses of at most 5 minutes.",
        "If it lasts, remove the cause that the error names.";
    CloudIsBusy, Waits, "The cloud is at work on the load balancer, or asked for a pause.",
        "Wait. Nothing is wrong unless it lasts much longer than usual.";
    DeletionIsBusy, Waits, "The cloud is at work on the deletion, or asked for a pause.",
        "Wait. Nothing is wrong unless it lasts much longer than usual.";
    DeletionBlocked, Waits, "The load balancer cannot be deleted, and retries do not help.",
        "Remove the cause that the error names; or annotate the Service with ccm-rs/abandon-load-balancer=true to \
         delete the Service and leave the load balancer in the cloud.";
    Protected, Waits, "The load balancer is locked or protected; retries do not help.",
        "Lift the lock or protection in the cloud.";
    Unauthorized, Waits, "The cloud refuses the credential; retries do not help.",
        "Give the cloud controller manager a valid credential that may do this; see its configuration.";
    QuotaExceeded, Waits, "A quota of the cloud is used up; retries do not help.",
        "Delete unused resources or have the quota raised in the cloud.";
    Invalid, Waits, "The cloud cannot do what the Service's spec or annotations request; retries do not help.",
        "Correct what the error names, in this Service or in the cloud.";
    SyncFailed, Waits, "The last sync failed.",
        "If it lasts, remove the cause that the error names.";
    ForeignOwner, Waits, "A load balancer of another owner stands where the Service's own would be; it is left alone.",
        "Decide which Service owns the load balancer; the message says how to transfer it.";
    TargetsNotUpdated, Waits, "The targets of the load balancer could not be changed; that is retried.",
        "If it lasts, remove the cause that the error names.";
    TargetsUnhealthy, Informs, "The cloud reports targets of the load balancer as unhealthy, so they get no traffic.",
        "Look at the Nodes behind them, and at the Pods and the health check of the Service.";
    FinalizerHeld, Waits, "The Service is being deleted, and the finalizer stays until its load balancer is deleted.",
        "Wait. Removing the finalizer by hand leaves the load balancer in the cloud.";
    OtherFinalizers, Waits, "The Service is being deleted and waits for finalizers of other controllers.",
        "Check the controllers of these finalizers; this manager has removed its own.";
    ForeignFinalizer, Waits, "The Service is being deleted; its load balancer and the finalizer belong to another \
                              controller.",
        "See the events and the log of its class's controller.";
    Abandoning, Informs, "The Service is being deleted without its load balancer, as ccm-rs/abandon-load-balancer \
                          requests.",
        "Delete the load balancer in the cloud if nothing else uses it.";
    Abandoned, Informs, "The Service was deleted without its load balancer, as ccm-rs/abandon-load-balancer requested.",
        "Delete the load balancer in the cloud if nothing else uses it.";
    Drifted, Informs, "The load balancer differs from the Service's spec and is not repaired.",
        "Change the Service, or run the manager with --load-balancer-drift=repair.";
    ServiceVanished, Waits, "The Service vanished from the API without being deleted, so its load balancer is kept.",
        "Check the API server and its storage. If the Service is really gone and was not alone, delete the load balancer in the \
         cloud.";
    RemovalFailed, Waits, "The Service no longer exists, and its load balancer could not be deleted; that is retried.",
        "If it lasts, remove the cause that the error names.";

    // States of Nodes.
    Uninitialized, Waits, "The Node has the uninitialized taint, because no manager has initialised it yet.",
        "Wait a moment; if it stays, see that a manager leads and runs cloud-node-controller.";
    InitializationFailed, Waits, "The Node cannot be initialised; that is retried with growing pauses of at most a minute.",
        "Remove the cause that the error names.";
    MetadataMissing, Waits, "The cloud has the machine, but no metadata of it yet.",
        "Wait; if it stays, look at the machine in the cloud.";
    NoSuchMachine, Waits, "The cloud has no machine for the Node.",
        "Make the kubelet's --hostname-override and the machine's name the same, or set the kubelet's --provider-id; check that \
         the credential is for the project that the machine is in.";
    ProviderIdMismatch, Waits, "The Node's provider ID names no machine, but there is a machine of the Node's name.",
        "If the machine was replaced, delete the Node, so that the kubelet registers it again; a provider ID cannot be changed.";
    AmbiguousIdentity, Waits, "Name and provider ID of the Node do not name exactly one machine.",
        "Rename one of the machines, or correct the kubelet's --provider-id.";
    NoProviderId, Waits, "The Node has neither a provider ID nor the uninitialized taint: no manager initialises it, and it is no \
                          target of load balancers.",
        "Start its kubelet with --cloud-provider=external, delete the Node and restart the kubelet, which registers it again; or \
         start the manager with --adopt-nodes.";
    NotManaged, Informs, "The manager does not manage the Node: it has neither a provider ID nor the uninitialized taint, and the \
                          cloud has no machine of its name.",
        "Leave it if it is no machine of this cloud. Otherwise give the machine the Node's name, start its kubelet with \
         --cloud-provider=external, delete the Node and restart the kubelet, which registers it again with the taint.";
    AllNodesForeign, Waits, "All Nodes of the cluster have the provider ID of another cloud, so the manager leaves all of them alone.",
        "Look for what set them: k3s runs a cloud controller of its own unless its servers have --disable-cloud-controller (RKE2: \
         disable-cloud-controller: true), another cloud controller manager may run, or the kubelets have --provider-id. Stop it, \
         then delete the Nodes and restart their kubelets, because a provider ID cannot be changed; or correct --cloud-provider.";
    OtherProvider, Informs, "The Node belongs to another cloud provider, and is left alone.",
        "See the log of that provider's controller manager.";
    MachineMissing, Waits, "The cloud has no such machine, but the kubelet reports the Node as ready, so the Node is kept.",
        "Check that the credential is for the right project. If the machine is really gone, the Node turns not ready by itself.";
    DeletionAhead, Waits, "The machine no longer exists; the Node is deleted once a second read confirms that.",
        "Wait. If the machine does exist, check now that the credential is for its project.";
    DeletionHeld, Waits, "The deletion of the Node is held.",
        "If the machine does exist, check the credential and its project; otherwise wait, or delete the Node by hand.";
    DeletionRefused, Waits, "The API server refused to delete the Node.",
        "Remove the cause that the error names.";
    ShutDown, Waits, "The cloud reports the machine as shut down; the Node has, or is about to get, the shutdown taint.",
        "Start the machine, or delete it and the Node if it is not needed any more.";
    ShutdownTaintStays, Waits, "The Node is ready and still carries the shutdown taint, which the next pass removes.",
        "Wait a moment; if it stays, see that a manager leads and runs cloud-node-lifecycle-controller.";
    NotReady, Waits, "The Node is not ready although the cloud has its machine and reports it as running.",
        "Look at the kubelet and the network of that machine: kubectl describe node shows the condition.";
    Terminating, Waits, "The Node is being deleted and waits for finalizers.",
        "Check the controllers of the finalizers; this manager sets none on Nodes.";
    NodeVanished, Waits, "The Node vanished from the API together with others, and is kept as a target until that is confirmed.",
        "Check the API server and its storage.";
    SharedProviderId, Informs, "The Node has the provider ID of an older Node.",
        "Delete the one of them that does not run on this machine.";
    LabelsLeftOut, Informs, "The cloud gives the Node labels that the API does not accept.",
        "Rename the labels in the cloud.";
    ExcludedFromLifecycle, Informs, "A label keeps the Node from being deleted or tainted because of its machine.",
        "Remove node.kubernetes.io/exclude-from-lifecycle-management if that is not intended.";
    ExcludedFromLoadBalancers, Informs, "A label keeps the Node out of load balancers.",
        "Remove node.kubernetes.io/exclude-from-external-load-balancers if that is not intended.";
    AutoscalerRemoves, Informs, "The cluster autoscaler is about to remove the Node, so it is no target of load balancers.",
        "";
    NoNetworkForTargets, Waits, "The Node has no network yet, so it is no target of load balancers.",
        "Wait for its route or network plug-in; --exclude-nodes-without-network asks for this.";
    NoPodCidr, Waits, "The Node has no Pod CIDR, so it gets no route.",
        "See that kube-controller-manager allocates Pod CIDRs (--allocate-node-cidrs).";
    RouteWaits, Waits, "The route of the Node waits until the Node is initialised and has an address.",
        "See why the Node is not initialised.";
    RouteMissing, Waits, "A route to the Node's Pods is missing in the cloud.",
        "Routes are retried with growing pauses of at most 5 minutes. If it lasts, remove the cause that the error names.";
    RouteFailed, Waits, "A route of the Node could not be created; that is retried with growing pauses of at most 5 minutes.",
        "If it lasts, remove the cause that the error names.";
    RouteStays, Waits, "A route of the Node could not be deleted; that is retried with growing pauses of at most 5 minutes.",
        "If it lasts, remove the cause that the error names.";
    RouteContested, Waits, "Another writer keeps changing a route of the Node, which is left alone for some time.",
        "Look for another controller, or another cluster, that manages the same routes.";
    PodCidrOutside, Informs, "A Pod CIDR of the Node lies outside --cluster-cidr: it gets no route.",
        "Correct --cluster-cidr.";
    PodCidrRefused, Informs, "A Pod CIDR of the Node gets no route, because it would take traffic from others.",
        "Remove the cause that the message names; a Pod CIDR changes only when the Node is registered again.";
    RoutesUnknown, Waits, "The cloud's routes cannot be listed, or the list is not trusted, so no route is changed.",
        "Remove the cause that the error names.";
    NetworkUnavailable, Waits, "Another component reports the Node's network as unavailable.",
        "Check the network plug-in that the reason names.";
}

impl State {
    /// Returns the state of a Service with this reason in its condition; `None` if the load balancer is in sync.
    #[must_use]
    pub fn of_reason(reason: Reason) -> Option<Self> {
        Some(match reason {
            Reason::Ensured => return None,
            Reason::EnsureFailed => Self::EnsureFailed,
            Reason::DeletionFailed => Self::DeletionFailed,
            Reason::Waiting => Self::CloudIsBusy,
            Reason::Deleting => Self::DeletionIsBusy,
            Reason::DeletionBlocked => Self::DeletionBlocked,
            Reason::Protected => Self::Protected,
            Reason::Unauthorized => Self::Unauthorized,
            Reason::QuotaExceeded => Self::QuotaExceeded,
            Reason::Invalid => Self::Invalid,
        })
    }

    /// Returns the state that an event reports, with the reasons of the events that end it; `None` if it reports none.
    #[must_use]
    pub fn of_event(reason: EventReason) -> Option<(Self, &'static [EventReason])> {
        use EventReason as E;
        const AT_WORK: &[EventReason] = &[E::Ensured, E::TargetsUpdated, E::Deleted];
        Some(match reason {
            E::InitializationFailed => (Self::InitializationFailed, &[E::Synced]),
            E::NoProviderId => (Self::NoProviderId, &[E::Synced]),
            E::SharedProviderId => (Self::SharedProviderId, &[]),
            E::LabelsLeftOut => (Self::LabelsLeftOut, &[]),
            E::DeletingNodeFailed => (Self::DeletionRefused, &[E::DeletionAverted]),
            E::DeletionHeld => (Self::DeletionHeld, &[E::DeletionAverted, E::DeletingNode]),
            E::NodeVanished => (
                Self::NodeVanished,
                &[E::VanishedNodeGone, E::VanishedNodeReturned],
            ),
            E::ShutdownTaintSet => (Self::ShutDown, &[E::ShutdownTaintRemoved]),
            E::FailedToDeleteRoute => (Self::RouteStays, &[]),
            E::FailedToCreateRoute => (Self::RouteFailed, &[]),
            E::RouteFlapping => (Self::RouteContested, &[]),
            E::PodCidrOutside => (Self::PodCidrOutside, &[]),
            E::PodCidrRefused => (Self::PodCidrRefused, &[]),
            E::NoTargets => (Self::NoNodes, &[E::TargetsUpdated]),
            E::SyncFailed => (Self::SyncFailed, AT_WORK),
            E::UpdateFailed => (Self::TargetsNotUpdated, AT_WORK),
            E::DeleteFailed => (Self::RemovalFailed, &[E::Deleted]),
            E::Abandoned => (Self::Abandoned, &[]),
            E::BalancerDeletionHeld => (Self::ServiceVanished, &[E::Deleted]),
            E::Drift => (Self::Drifted, AT_WORK),
            E::Synced
            | E::DeletingNode
            | E::ShutdownTaintRemoved
            | E::DeletionAverted
            | E::VanishedNodeGone
            | E::VanishedNodeReturned
            | E::Ensuring
            | E::Ensured
            | E::Deleting
            | E::Deleted
            | E::TargetsUpdated
            | E::Replacing
            | E::Twin => return None,
        })
    }

    /// Returns the state of a Service on which a sync does this operation; `None` for the usual one.
    #[must_use]
    pub fn of_operation(operation: Operation) -> Option<Self> {
        match operation {
            Operation::Ensure => None,
            Operation::TearDown => Some(Self::FinalizerHeld),
            Operation::Abandon => Some(Self::Abandoning),
            Operation::Nothing => Some(Self::OtherFinalizers),
        }
    }

    /// Returns the state of a Node with this next action of the lifecycle controller.
    #[must_use]
    pub fn of_preview(preview: &LifecyclePreview) -> Option<Self> {
        match preview {
            LifecyclePreview::Leave => None,
            LifecyclePreview::Taint => Some(Self::ShutDown),
            LifecyclePreview::Untaint => Some(Self::ShutdownTaintStays),
            LifecyclePreview::Delete => Some(Self::DeletionAhead),
            LifecyclePreview::Held(_) => Some(Self::DeletionHeld),
        }
    }

    /// Returns the facts about an object in this state that only the leading manager knows.
    #[must_use]
    pub fn unknown(self) -> Option<&'static str> {
        match self {
            Self::EnsureFailed
            | Self::DeletionFailed
            | Self::CloudIsBusy
            | Self::DeletionIsBusy
            | Self::SyncFailed
            | Self::TargetsNotUpdated
            | Self::InitializationFailed
            | Self::RouteFailed
            | Self::RouteStays
            | Self::RouteContested => {
                Some("the time of the next retry, which only the leading manager knows")
            }
            Self::DeletionHeld
            | Self::ServiceVanished
            | Self::NodeVanished
            | Self::LeftOnOtherClass => {
                Some("the end of the hold, which only the leading manager knows")
            }
            _ => None,
        }
    }
}
