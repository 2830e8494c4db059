//! Paths that need no permission (APP-127).

/// Parsed value of `--authorization-always-allow-paths`.
#[derive(Debug, Default)]
pub(super) struct Paths {
    exact: Vec<String>,
    prefixes: Vec<String>,
}

impl Paths {
    pub(super) fn new(paths: &[String]) -> Result<Self, String> {
        check_always_allow_paths(paths)?;
        let mut sorted = Self::default();
        for path in paths {
            let path = bare(path);
            match path.strip_suffix('*') {
                Some(prefix) => sorted.prefixes.push(prefix.to_owned()),
                None => sorted.exact.push(path.to_owned()),
            }
        }
        Ok(sorted)
    }

    pub(super) fn allow(&self, path: &str) -> bool {
        let path = bare(path);
        self.exact.iter().any(|exact| exact == path)
            || self.prefixes.iter().any(|prefix| path.starts_with(prefix))
    }
}

/// Returns `true` if `--authorization-always-allow-paths` with these values permits a path without authorization.
/// Invalid values permit nothing.
#[must_use]
pub fn is_always_allowed(always_allow_paths: &[String], path: &str) -> bool {
    Paths::new(always_allow_paths).is_ok_and(|paths| paths.allow(path))
}

/// Removes the leading slash, which is optional.
fn bare(path: &str) -> &str {
    path.strip_prefix('/').unwrap_or(path)
}

/// Checks `--authorization-always-allow-paths`.
///
/// # Errors
/// A `*` that is not at the end.
pub fn check_always_allow_paths(paths: &[String]) -> Result<(), String> {
    for path in paths {
        let path = bare(path);
        if path.strip_suffix('*').unwrap_or(path).contains('*') {
            return Err(format!("only trailing * allowed in {path:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(paths: &[&str]) -> Result<Paths, String> {
        Paths::new(
            &paths
                .iter()
                .map(|path| (*path).to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn a_path_is_allowed_exactly_or_by_its_beginning() {
        let paths = paths(&["/healthz", "metrics", "/debug/*"]).unwrap();
        let table = [
            ("/healthz", true),
            ("/healthz/ping", false),
            ("/metrics", true),
            ("/metrics/slis", false),
            ("/debug/pprof/profile", true),
            ("/debug/", true),
            ("/debug", false),
            ("/", false),
        ];
        for (path, allowed) in table {
            assert_eq!(paths.allow(path), allowed, "{path}");
        }
        assert!(self::paths(&["*"]).unwrap().allow("/anything"));
    }

    #[test]
    fn a_star_in_the_middle_is_an_error() {
        assert_eq!(
            paths(&["/a*b"]).unwrap_err(),
            "only trailing * allowed in \"a*b\""
        );
        assert_eq!(
            paths(&["/a**"]).unwrap_err(),
            "only trailing * allowed in \"a**\""
        );
    }
}
