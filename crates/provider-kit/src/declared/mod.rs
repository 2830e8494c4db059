//! Declarations: one const describes an annotation, a variable or a key of a file; parsing, mistakes and the reference
//! page are derived from it.
//!
//! ```
//! use std::time::Duration;
//! use provider_kit::declared::{Declared, Kind, Value, reference};
//!
//! #[derive(Clone, Copy)]
//! pub enum Tier { Basic, Premium }
//!
//! impl Value for Tier {
//!     const KIND: Kind<Self> = Kind::one_of(&[("basic", Tier::Basic), ("premium", Tier::Premium)]);
//! }
//!
//! provider_kit::declare! {
//!     /// Every annotation of Acme's.
//!     pub ALL: "acme.example/";
//!
//!     /// Size of the load balancer.
//!     pub TIER: Tier = "tier", default("basic"), aliases(&["acme.example/size"]);
//!     /// Time after which an idle connection is closed.
//!     pub IDLE: Duration = "idle", default_description("the cloud's: `1m`");
//!     /// Port of the health check.
//!     pub CHECK_PORT: u16 = "check-port", kind(Kind::number(1, 65535));
//! }
//!
//! let table = reference::table("annotation", ALL);
//! assert!(table.contains("| `acme.example/tier` | `basic`, `premium` | `basic` | Size of the load balancer."));
//! assert_eq!(CHECK_PORT.row().key, "acme.example/check-port");
//! ```

mod declare;
mod defaults;
pub mod forms;
mod kind;
mod reading;
pub mod reference;

pub use defaults::Defaults;
pub use kind::{Kind, Value};
pub(crate) use reading::{Mistake, Reading, refused};

/// The declaration of one annotation ([`Annotation`](crate::annotations::Annotation)), variable
/// ([`Variable`](crate::variables::Variable)) or key of a file ([`Key`](crate::gcfg::Key)) with values of type `T`.
#[derive(Debug)]
pub struct Declaration<T: 'static> {
    pub(crate) key: &'static str,
    pub(crate) kind: Kind<T>,
    pub(crate) default: DefaultValue,
    pub(crate) fallback: Option<&'static Self>,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) on_invalid: OnInvalid,
    pub(crate) is_secret: bool,
    pub(crate) decides_targets: bool,
    reaches: Option<&'static str>,
    costs: Option<&'static str>,
    doc: &'static str,
}

/// The value that applies if nothing is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// There is no value.
    Nothing,
    /// A default value, in the form that a user writes.
    Value(&'static str),
    /// A description of what applies; reading returns `None`.
    Described(&'static str),
}

/// The treatment of a value that is not accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnInvalid {
    /// The value is a mistake: nothing is done until it is corrected.
    #[default]
    Refuse,
    /// The value is reported in a warning, and counts as unset.
    Warn,
}

impl<T> Declaration<T> {
    /// Declares a setting: `key` is the annotation's key or the variable's name; `doc` describes the setting in a
    /// sentence or two of Markdown.
    #[must_use]
    pub const fn new(key: &'static str, kind: Kind<T>, doc: &'static str) -> Self {
        let default = DefaultValue::Nothing;
        let aliases = &[] as &[_];
        let on_invalid = OnInvalid::Refuse;
        Self {
            key,
            kind,
            default,
            fallback: None,
            aliases,
            on_invalid,
            is_secret: false,
            decides_targets: false,
            reaches: None,
            costs: None,
            doc,
        }
    }

    /// Sets the form of the values.
    #[must_use]
    pub const fn kind(self, kind: Kind<T>) -> Self {
        Self { kind, ..self }
    }

    /// Sets the default, in the form that a user writes.
    #[must_use]
    pub const fn default(self, value: &'static str) -> Self {
        Self {
            default: DefaultValue::Value(value),
            ..self
        }
    }

    /// Describes in words what applies if nothing is set; reading then returns `None`.
    #[must_use]
    pub const fn default_description(self, words: &'static str) -> Self {
        Self {
            default: DefaultValue::Described(words),
            ..self
        }
    }

    /// Names the variable or key that applies if nothing is set: see [`Defaults`].
    #[must_use]
    pub const fn fallback(self, fallback: &'static Self) -> Self {
        Self {
            fallback: Some(fallback),
            ..self
        }
    }

    /// Sets deprecated names, which are read with a warning if the declared name is not set.
    #[must_use]
    pub const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// Makes a value that is not accepted a warning instead of a mistake.
    #[must_use]
    pub const fn lenient(self) -> Self {
        Self {
            on_invalid: OnInvalid::Warn,
            ..self
        }
    }

    /// Marks a setting that decides which Nodes are targets: a mistake in it stops changes of the targets, too. A
    /// mistake in any other setting does not.
    #[must_use]
    pub const fn decides_targets(self) -> Self {
        Self {
            decides_targets: true,
            ..self
        }
    }

    /// Marks an annotation by which the author of a Service uses, changes or pays for something that is not the Service's
    /// own: `what` completes the sentence "The author of a Service can use …", such as "any certificate of the project".
    /// The page about multi-tenant clusters and the admission policy are generated from these marks.
    #[must_use]
    pub const fn reaches(self, what: &'static str) -> Self {
        Self {
            reaches: Some(what),
            ..self
        }
    }

    /// Marks an annotation by which the author of a Service makes the owner of the account pay more, but reaches nothing of
    /// others: the page about multi-tenant clusters names it, and the admission policy allows it. `what` has the form of
    /// that of [`reaches`](Self::reaches).
    #[must_use]
    pub const fn costs(self, what: &'static str) -> Self {
        Self {
            costs: Some(what),
            ..self
        }
    }

    /// Marks a secret, whose value never appears in a message (INV-5).
    #[must_use]
    pub const fn secret(self) -> Self {
        Self {
            is_secret: true,
            ..self
        }
    }

    /// Returns the annotation's key or the variable's name.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        self.key
    }
}

/// A declaration with values of any type, as needed for the reference page.
pub trait Declared: Sync {
    /// Returns the row of the reference page.
    fn row(&self) -> Row;

    /// Checks the text of a value.
    ///
    /// # Errors
    /// The reason why the text is not accepted, and the accepted values.
    fn check(&self, text: &str) -> Result<(), String>;
}

/// A row of the reference page, for one declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Key of the annotation, or name of the variable.
    pub key: &'static str,
    /// Accepted values, in Markdown.
    pub values: String,
    /// The value that applies if nothing is set.
    pub default: DefaultValue,
    /// The variable or key that applies if nothing is set.
    pub fallback: Option<&'static str>,
    /// If set, the default is a valid value, or there is none. A provider's test checks that it is always set.
    pub default_is_accepted: bool,
    /// Deprecated names of the setting.
    pub aliases: &'static [&'static str],
    /// Treatment of a value that is not accepted.
    pub on_invalid: OnInvalid,
    /// If set, the value is never shown; that of a variable may also be in the file that `<key>_FILE` names.
    pub is_secret: bool,
    /// Text of the mark [`reaches`](Declaration::reaches): the author of a Service can do this with the annotation.
    pub reaches: Option<&'static str>,
    /// Text of the mark [`costs`](Declaration::costs).
    pub costs: Option<&'static str>,
    /// Description of the setting.
    pub doc: &'static str,
}

impl<T: Sync> Declared for Declaration<T> {
    fn row(&self) -> Row {
        let Self {
            key,
            kind,
            default,
            fallback,
            aliases,
            on_invalid,
            is_secret,
            reaches,
            costs,
            doc,
            ..
        } = *self;
        let default_is_accepted = match default {
            DefaultValue::Value(value) => kind.parse(value).is_some(),
            DefaultValue::Nothing | DefaultValue::Described(_) => true,
        };
        let doc = doc.trim();
        let fallback = fallback.map(Self::key);
        Row {
            key,
            values: kind.markdown(),
            default,
            fallback,
            default_is_accepted,
            aliases,
            on_invalid,
            is_secret,
            reaches,
            costs,
            doc,
        }
    }

    fn check(&self, text: &str) -> Result<(), String> {
        self.read(text).map(drop)
    }
}
