//! The authenticated user of a request.

use std::collections::BTreeMap;

/// Name of a caller without a credential.
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const AUTHENTICATED: &str = "system:authenticated";

/// User that sent a request. The middleware adds it to the extensions of each authorized request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Name of the user.
    pub name: String,
    /// UID, if there is one.
    pub uid: String,
    /// Groups of the user.
    pub groups: Vec<String>,
    /// Further attributes of the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Returns the anonymous user (APP-126).
    pub(super) fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Adds the group of all authenticated users (APP-126).
    pub(super) fn authenticated(mut self) -> Self {
        let is_classified = |group: &String| group == AUTHENTICATED || group == UNAUTHENTICATED;
        if self.name != ANONYMOUS && !self.groups.iter().any(is_classified) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    pub(super) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own_group| own_group == group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authenticated_user_is_in_the_group_of_authenticated_users() {
        let jane = User {
            name: "jane".into(),
            groups: vec!["ops".into()],
            ..User::default()
        };
        let jane = jane.authenticated();
        assert_eq!(jane.groups, ["ops", "system:authenticated"]);
        assert_eq!(jane.clone().authenticated(), jane, "once");
        assert_eq!(
            User::anonymous().authenticated().groups,
            ["system:unauthenticated"]
        );
    }
}
