//! Declarations: one const says all about an annotation, a variable or a file's key; reading, mistakes and the reference page follow.
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
//!     /// When an idle connection is closed.
//!     pub IDLE: Duration = "idle", otherwise("the cloud's: `1m`");
//!     /// Where targets are checked.
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

/// All about one annotation ([`Annotation`](crate::annotations::Annotation)), variable
/// ([`Variable`](crate::variables::Variable)) or key of a file ([`Key`](crate::gcfg::Key)) with values of type `T`.
#[derive(Debug)]
pub struct Declaration<T: 'static> {
    pub(crate) key: &'static str,
    pub(crate) kind: Kind<T>,
    pub(crate) default: Unset,
    pub(crate) fallback: Option<&'static Self>,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) if_wrong: IfWrong,
    pub(crate) is_secret: bool,
    pub(crate) decides_targets: bool,
    doc: &'static str,
}

/// What holds where nothing is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unset {
    /// Nothing.
    Nothing,
    /// This value, in the form that a user writes.
    Value(&'static str),
    /// What these words say; reading gives `None`.
    Words(&'static str),
}

/// What happens with a value that is not accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfWrong {
    /// It is a mistake: nothing is done until it is mended.
    #[default]
    Refuse,
    /// It is told as a warning, and what holds without a value holds.
    Warn,
}

impl<T> Declaration<T> {
    /// `key`: the annotation's key or the variable's name; `doc`: what it does, in a sentence or two of Markdown.
    #[must_use]
    pub const fn new(key: &'static str, kind: Kind<T>, doc: &'static str) -> Self {
        let default = Unset::Nothing;
        let (aliases, if_wrong) = (&[] as &[_], IfWrong::Refuse);
        Self { key, kind, default, fallback: None, aliases, if_wrong, is_secret: false, decides_targets: false, doc }
    }

    /// Values are written in this way.
    #[must_use]
    pub const fn kind(self, kind: Kind<T>) -> Self {
        Self { kind, ..self }
    }

    /// What holds where nothing is set, as a user would write it.
    #[must_use]
    pub const fn default(self, value: &'static str) -> Self {
        Self { default: Unset::Value(value), ..self }
    }

    /// What decides where nothing is set, in words: reading gives `None` then.
    #[must_use]
    pub const fn otherwise(self, words: &'static str) -> Self {
        Self { default: Unset::Words(words), ..self }
    }

    /// Names the variable or key that decides where nothing is set: see [`Defaults`].
    #[must_use]
    pub const fn or(self, fallback: &'static Self) -> Self {
        Self { fallback: Some(fallback), ..self }
    }

    /// Deprecated names, which are read where the declared one is not set, with a warning.
    #[must_use]
    pub const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// A value that is not accepted is a warning only.
    #[must_use]
    pub const fn lenient(self) -> Self {
        Self { if_wrong: IfWrong::Warn, ..self }
    }

    /// It decides which Nodes are targets: a mistake in it stops changes of the targets, too. A mistake in any other setting
    /// does not.
    #[must_use]
    pub const fn decides_targets(self) -> Self {
        Self { decides_targets: true, ..self }
    }

    /// Its value never appears in a message (INV-5).
    #[must_use]
    pub const fn secret(self) -> Self {
        Self { is_secret: true, ..self }
    }

    /// The annotation's key or the variable's name.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        self.key
    }
}

/// A declaration, whatever the type of its values: what the reference page is made of.
pub trait Declared: Sync {
    /// What there is to say.
    fn row(&self) -> Row;

    /// Checks a text.
    ///
    /// # Errors
    /// What is wrong with it, and what is accepted.
    fn check(&self, text: &str) -> Result<(), String>;
}

/// What there is to say about one declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The annotation's key or the variable's name.
    pub key: &'static str,
    /// What is accepted, in Markdown.
    pub values: String,
    /// What holds where nothing is set.
    pub default: Unset,
    /// The variable or key that decides where nothing is set.
    pub fallback: Option<&'static str>,
    /// Whether the default, if it is a value, is accepted: a test of the provider's asks.
    pub default_is_accepted: bool,
    /// Deprecated names.
    pub aliases: &'static [&'static str],
    /// What happens with a value that is not accepted.
    pub if_wrong: IfWrong,
    /// Whether its value is never shown; that of a variable is also read from the file that `<key>_FILE` names.
    pub is_secret: bool,
    /// What it does.
    pub doc: &'static str,
}

impl<T: Sync> Declared for Declaration<T> {
    fn row(&self) -> Row {
        let Self { key, kind, default, fallback, aliases, if_wrong, is_secret, doc, .. } = *self;
        let default_is_accepted = match default {
            Unset::Value(value) => kind.parse(value).is_some(),
            Unset::Nothing | Unset::Words(_) => true,
        };
        let (doc, fallback) = (doc.trim(), fallback.map(Self::key));
        Row { key, values: kind.markdown(), default, fallback, default_is_accepted, aliases, if_wrong, is_secret, doc }
    }

    fn check(&self, text: &str) -> Result<(), String> {
        self.read(text).map(drop)
    }
}
