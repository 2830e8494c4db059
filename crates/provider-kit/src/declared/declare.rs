//! The macro that makes a module of declarations, and the list of them.

/// Declares annotations or variables: a const for each, and a list of all for the reference page, in which none is forgotten.
///
/// First the list's name and what all keys begin with; then `NAME: Type = "rest of the key"`, followed by methods of
/// [`Declaration`](crate::declared::Declaration). The documentation of each is the text of the reference page; its values are
/// written as [`Value`](crate::declared::Value) says. The example is [`declared`](crate::declared)'s.
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
