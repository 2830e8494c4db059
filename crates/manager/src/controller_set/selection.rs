//! The selection of controllers: `--controllers` (APP-30 … APP-34).

use cloud_provider::names::{CONTROLLERS, ControllerNames, VOLUME_LABEL_CONTROLLER};

/// Item that selects every controller that is on by default.
const ALL: &str = "*";
/// Controllers that `*` does not select. The Go program no longer has them, and their permissions are needed only if
/// they run (D-14).
const OFF_BY_DEFAULT: [ControllerNames; 1] = [VOLUME_LABEL_CONTROLLER];

/// The selected controllers.
///
/// ```
/// use cloud_provider::names::{NODE_CONTROLLER, SERVICE_CONTROLLER};
/// use manager::Selection;
///
/// let selection = Selection::parse(["*", "-service"]).unwrap();
/// assert!(selection.includes(NODE_CONTROLLER) && !selection.includes(SERVICE_CONTROLLER));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection(Vec<Item>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    All,
    On(&'static str),
    Off(&'static str),
}

impl Default for Selection {
    fn default() -> Self {
        Self(vec![Item::All])
    }
}

impl Selection {
    /// Parses items `name`, `-name` and `*`. A name is canonical or an older alias.
    ///
    /// # Errors
    /// One error for each unknown name.
    pub fn parse<'a>(items: impl IntoIterator<Item = &'a str>) -> Result<Self, Vec<String>> {
        let mut selection = Vec::new();
        let mut errors = Vec::new();
        for item in items {
            let (off, name) = item
                .strip_prefix('-')
                .map_or((false, item), |name| (true, name));
            match CONTROLLERS
                .into_iter()
                .find(|known| name == known.canonical || name == known.alias)
            {
                Some(known) if off => selection.push(Item::Off(known.canonical)),
                Some(known) => selection.push(Item::On(known.canonical)),
                // The item `-*` is accepted without effect, like in the Go program.
                None if name == ALL => selection.extend((!off).then_some(Item::All)),
                None => errors.push(unknown(name)),
            }
        }
        if errors.is_empty() {
            Ok(Self(selection))
        } else {
            Err(errors)
        }
    }

    /// Returns `true` if this controller is selected. The first item with its name takes precedence over `*` (APP-31).
    #[must_use]
    pub fn includes(&self, names: ControllerNames) -> bool {
        let named = self.0.iter().find_map(|item| match item {
            Item::On(name) => (*name == names.canonical).then_some(true),
            Item::Off(name) => (*name == names.canonical).then_some(false),
            Item::All => None,
        });
        named.unwrap_or_else(|| self.0.contains(&Item::All) && !OFF_BY_DEFAULT.contains(&names))
    }
}

fn unknown(name: &str) -> String {
    let known: Vec<_> = CONTROLLERS
        .iter()
        .map(|known| format!("{} ({})", known.canonical, known.alias))
        .collect();
    format!(
        "{name:?} is not in the list of known controllers; known are {ALL}, {}",
        known.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the aliases of the selected controllers.
    fn on(items: &[&str]) -> Vec<&'static str> {
        let selection = Selection::parse(items.iter().copied()).unwrap();
        CONTROLLERS
            .into_iter()
            .filter(|names| selection.includes(*names))
            .map(|names| names.alias)
            .collect()
    }

    #[test]
    fn the_first_item_that_names_a_controller_decides_and_then_the_star() {
        let standard = ["cloud-node", "cloud-node-lifecycle", "route", "service"];
        assert_eq!(on(&["*"]), standard);
        assert_eq!(
            on(&["*", "pvlabel"]),
            [&standard[..], &["pvlabel"]].concat()
        );
        assert_eq!(
            on(&["persistent-volume-label-controller", "*"]),
            on(&["*", "pvlabel"]),
            "the star's place is no matter"
        );
        for without in [["*", "-cloud-node"], ["-cloud-node-controller", "*"]] {
            assert_eq!(on(&without), ["cloud-node-lifecycle", "route", "service"]);
        }
        assert_eq!(
            on(&["cloud-node,", "route"].map(|item| item.trim_end_matches(','))),
            ["cloud-node", "route"]
        );
        assert_eq!(on(&["-route", "route"]), [""; 0]);
        assert_eq!(on(&["-service"]), [""; 0], "nothing is on without a star");
        assert_eq!(on(&[]), [""; 0]);
        assert_eq!(on(&["-*"]), [""; 0]);
    }

    #[test]
    fn unknown_names_are_all_reported() {
        let errors = Selection::parse(["foo", "*", "-bar", ""]).unwrap_err();
        assert_eq!(errors.len(), 3);
        assert!(
            errors[0].starts_with("\"foo\" is not in the list of known controllers"),
            "{errors:?}"
        );
        assert!(
            errors[1].starts_with("\"bar\" is not in the list of known controllers"),
            "{errors:?}"
        );
        assert!(
            errors[2].contains("cloud-node-controller (cloud-node)"),
            "{errors:?}"
        );
    }
}
