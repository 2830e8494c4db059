//! Kubernetes Events: reports about objects, for people.
//!
//! An [`EventRecorder`] never waits: it puts the event into a queue of 10,000 and returns (RT-25). A separate task
//! ([`EventSender`]) merges, counts and limits as client-go does (RT-26), and sends core/v1 Events (RT-27).

mod correlator;
mod record;
mod sender;
mod sink;
#[cfg(test)]
mod tests;

pub use correlator::{CorrelationOutcome, Correlator};
pub use record::{EventType, ObjectRef, RecordedEvent};
pub use sender::{EventRecorder, EventSender, recorder, recorder_into};
pub use sink::{ApiSink, EventSink, SinkError};
