//! Settings from a Service's annotations, with all mistakes reported at once.

use std::collections::HashSet;

use cloud_provider::{Result, Service, ServiceReview, closest};

use crate::declared::{Declaration, Declared, Defaults, Mistake, Reading, refused};

#[cfg(test)]
mod tests;

/// The number of unknown annotations that are named; further ones are only counted. Any user may send a Service with
/// thousands of annotations to an admission webhook.
const NAMED: usize = 20;
/// The number of unknown annotations for which a known one is suggested.
const SUGGESTIONS: usize = 5;

/// The declaration of an annotation.
pub type Annotation<T> = Declaration<T>;

/// A reader of annotations: get each one, then call [`finish`](Self::finish).
///
/// ```
/// use cloud_provider::Service;
/// use provider_kit::annotations::{Annotation, Annotations};
/// use provider_kit::declared::Kind;
///
/// const TIER: Annotation<char> =
///     Annotation::new("acme/tier", Kind::one_of(&[("basic", 'b'), ("premium", 'p')]), "Its size.").default("basic");
///
/// let mut service = Service::default();
/// let mut annotations = Annotations::of(&service);
/// assert_eq!(annotations.get(&TIER), Some('b'));
/// annotations.finish()?;
///
/// service.metadata.annotations = Some([("acme/tier".to_owned(), "gold".to_owned())].into());
/// let mut annotations = Annotations::of(&service);
/// annotations.get(&TIER);
/// let err = annotations.finish().unwrap_err();
/// assert_eq!(err.to_string(), "annotation acme/tier: \"gold\" is not one of basic, premium");
/// # Ok::<(), cloud_provider::Error>(())
/// ```
#[derive(Debug)]
pub struct Annotations<'a> {
    service: &'a Service,
    defaults: Option<&'a Defaults>,
    reading: Reading,
}

impl<'a> Annotations<'a> {
    /// Returns a reader of this Service's annotations.
    #[must_use]
    pub fn of(service: &'a Service) -> Self {
        Self {
            service,
            defaults: None,
            reading: Reading::default(),
        }
    }

    /// Sets the defaults for annotations that the Service does not set.
    #[must_use]
    pub fn over(self, defaults: &'a Defaults) -> Self {
        Self {
            defaults: Some(defaults),
            ..self
        }
    }

    /// Returns the value, or else that of the [fallback](Declaration::fallback), or else the default. `None` if there
    /// is none of these. An invalid annotation counts as unset, but has no default. An empty annotation is set.
    pub fn get<T>(&mut self, annotation: &Annotation<T>) -> Option<T> {
        let service = self.service;
        self.reading
            .get(annotation, &|key| format!("annotation {key}"), |key| {
                set(service, key)
            })
            .or_else(|| self.default(annotation))
    }

    /// Returns the value that applies if the annotation is not set, according to its [fallback](Declaration::fallback).
    #[must_use]
    pub fn default<T>(&self, annotation: &Annotation<T>) -> Option<T> {
        self.defaults?.get(annotation.fallback?)
    }

    /// Returns `true` if the annotation is set to any value.
    #[must_use]
    pub fn is_set<T>(&self, annotation: &Annotation<T>) -> bool {
        std::iter::once(&annotation.key)
            .chain(annotation.aliases)
            .any(|key| set(self.service, key).is_some())
    }

    /// Adds a mistake that the caller found; name the annotation, its value, and the accepted values.
    pub fn mistake(&mut self, text: impl Into<String>) {
        self.reading.mistake(text.into());
    }

    /// Adds a warning about a setting that works, but needs attention.
    pub fn warning(&mut self, text: impl Into<String>) {
        self.reading.warning(text.into());
    }

    /// Warns of annotations that begin with `prefix` and are not `declared`, because no code reads them.
    pub fn unknown(&mut self, prefix: &str, declared: &[&dyn Declared]) {
        let rows: Vec<_> = declared.iter().map(|setting| setting.row()).collect();
        let known: Vec<&str> = rows
            .iter()
            .flat_map(|row| std::iter::once(&row.key).chain(row.aliases))
            .copied()
            .collect();
        let declared: HashSet<&str> = known.iter().copied().collect();
        let keys = self
            .service
            .metadata
            .annotations
            .iter()
            .flatten()
            .map(|(key, _)| key);
        let unknown: Vec<_> = keys
            .filter(|key| key.starts_with(prefix) && !declared.contains(&***key))
            .collect();
        for (index, key) in unknown.iter().take(NAMED).enumerate() {
            let meant = if index < SUGGESTIONS {
                closest(key, &known)
            } else {
                None
            };
            let hint = meant.map_or_else(String::new, |meant| format!(": did you mean {meant}?"));
            self.reading
                .warning(format!("annotation {key} is not known{hint}"));
        }
        if unknown.len() > NAMED {
            self.reading.warning(format!(
                "{} more annotations {prefix}… are not known",
                unknown.len() - NAMED
            ));
        }
    }

    /// Returns the warnings so far, for an event.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        self.reading.warnings()
    }

    /// Ends the reading with the parsed spec. The mistakes stay beside it: each caller decides which of them matter.
    #[must_use]
    pub fn parsed<S>(self, spec: S) -> Parsed<S> {
        let warnings = self.reading.warnings().to_vec();
        Parsed {
            spec,
            mistakes: self.reading.into_mistakes(),
            warnings,
            targets_follow_labels: false,
        }
    }

    /// Ends the reading, and refuses mistakes.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes: each names key, value and the accepted values.
    pub fn finish(self) -> Result<()> {
        self.reading.finish()
    }
}

/// A Service, parsed once into a provider's own type, with the mistakes in its annotations.
///
/// ```
/// use cloud_provider::Service;
/// use provider_kit::annotations::{Annotation, Annotations, Parsed};
/// use provider_kit::declared::Value;
///
/// const PORT: Annotation<u16> = Annotation::new("acme/port", u16::KIND, "Port of the health check.");
///
/// fn spec(service: &Service) -> Parsed<Option<u16>> {
///     let mut annotations = Annotations::of(service);
///     let port = annotations.get(&PORT);
///     annotations.parsed(port)
/// }
///
/// let mut service = Service::default();
/// service.metadata.annotations = Some([("acme/port".to_owned(), "http".to_owned())].into());
/// let parsed = spec(&service);
/// assert!(parsed.check().unwrap_err().to_string().starts_with("annotation acme/port: \"http\" is not"));
/// assert!(parsed.check_targets().is_ok(), "the mistake does not decide about targets");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Parsed<S> {
    /// The provider's own form of the Service. A setting with a mistake counts as unset.
    pub spec: S,
    mistakes: Vec<Mistake>,
    warnings: Vec<String>,
    pub(crate) targets_follow_labels: bool,
}

impl<S> Parsed<S> {
    /// Sets whether labels of Nodes decide about the targets, as with a selector: then targets are planned again when
    /// labels change.
    #[must_use]
    pub fn targets_follow_labels(self, follow: bool) -> Self {
        Self {
            targets_follow_labels: follow,
            ..self
        }
    }

    /// Adds warnings that the provider reports in another way when it syncs the Service, such as by events with their
    /// own reasons.
    #[must_use]
    pub fn warned(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// Converts the spec into another form.
    pub fn map<T>(self, form: impl FnOnce(S) -> T) -> Parsed<T> {
        let Self {
            spec,
            mistakes,
            warnings,
            targets_follow_labels,
        } = self;
        Parsed {
            spec: form(spec),
            mistakes,
            warnings,
            targets_follow_labels,
        }
    }

    /// Returns all mistakes and warnings, for [`LoadBalancers::review`](cloud_provider::LoadBalancers::review).
    #[must_use]
    pub fn review(&self) -> ServiceReview {
        let errors = self
            .mistakes
            .iter()
            .map(|mistake| mistake.text.clone())
            .collect();
        ServiceReview {
            errors,
            warnings: self.warnings.clone(),
        }
    }

    /// Refuses a Service with any mistake.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes: each names key, value and the accepted values.
    pub fn check(&self) -> Result<()> {
        refused(self.mistakes.iter())
    }

    /// Refuses a Service with a mistake in a setting that [decides about targets](Declaration::decides_targets).
    ///
    /// # Errors
    /// *Invalid*, with the mistakes in these settings.
    pub fn check_targets(&self) -> Result<()> {
        refused(
            self.mistakes
                .iter()
                .filter(|mistake| mistake.decides_targets),
        )
    }
}

impl<T> Declaration<T> {
    /// Returns the text of the annotation as it is written, for callers that need it even if other annotations are
    /// invalid; `None` if the text is empty.
    ///
    /// ```
    /// use cloud_provider::Service;
    /// use provider_kit::annotations::Annotation;
    /// use provider_kit::declared::Value;
    ///
    /// const NAME: Annotation<String> = Annotation::new("acme.example/name", String::KIND, "Name of the load balancer.");
    /// let mut service = Service::default();
    /// service.metadata.annotations = Some([("acme.example/name".to_owned(), "web".to_owned())].into());
    /// assert_eq!(NAME.text_on(&service), Some("web"));
    /// ```
    #[must_use]
    pub fn text_on<'a>(&self, service: &'a Service) -> Option<&'a str> {
        set(service, self.key).filter(|text| !text.is_empty())
    }
}

fn set<'a>(service: &'a Service, key: &str) -> Option<&'a str> {
    service
        .metadata
        .annotations
        .as_ref()?
        .get(key)
        .map(String::as_str)
}
