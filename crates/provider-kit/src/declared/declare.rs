//! The macro that declares settings, with a list of them.

/// Declares annotations or variables: a const for each, and a list of all of them for the reference page, so that none
/// is forgotten.
///
/// A declaration starts with the list's name and the prefix of all keys, followed by `NAME: Type = "rest of the key"`
/// with methods of [`Declaration`](crate::declared::Declaration). The documentation of each is the text of the
/// reference page; its values have the form of [`Value`](crate::declared::Value). See the example of
/// [`declared`](crate::declared).
#[macro_export]
macro_rules! declare {
    (
        $(#[$all_meta:meta])* $all_vis:vis $all:ident: $prefix:literal;
        $(
            $(#[doc = $doc:literal])+
            $vis:vis $name:ident: $value:ty = $key:literal $(, $method:ident($($argument:expr),*))*;
        )*
    ) => {
        $(
            $(#[doc = $doc])+
            $vis const $name: $crate::declared::Declaration<$value> = $crate::declared::Declaration::new(
                concat!($prefix, $key),
                <$value as $crate::declared::Value>::KIND,
                concat!($($doc),+),
            )
            $(.$method($($argument),*))*;
        )*

        $(#[$all_meta])*
        $all_vis const $all: &[&dyn $crate::declared::Declared] = &[$(&$name),*];
    };
}
