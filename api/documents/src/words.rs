//! Closed sets of words: an enum in Rust and in the OpenAPI text, a plain string in JSON.

/// Defines an enum of which each value is one word in JSON.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:tt,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// The word.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }

            /// The value of this word; `None`: there is no such word.
            pub fn of(word: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|value| value.as_str() == word)
            }
        }

        /// A comparison with the word itself, as scripts make it; there must be such a word.
        impl PartialEq<&str> for $name {
            fn eq(&self, word: &&str) -> bool {
                debug_assert!($name::of(word).is_some(), "{word:?} is none of {:?}", $name::ALL);
                self.as_str() == *word
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

pub(crate) use words;

#[cfg(test)]
mod tests {
    words! {
        /// Two.
        Pair {
            /// Left.
            Left = "left",
            /// In two words.
            FarRight = "far_right",
        }
    }

    #[test]
    fn a_value_is_its_word_in_json_and_in_text() {
        for value in Pair::ALL {
            let json = format!("\"{value}\"");
            assert_eq!(serde_json::to_string(value).unwrap(), json);
            assert_eq!(serde_json::from_str::<Pair>(&json).unwrap(), *value);
            assert_eq!(Pair::of(value.as_str()), Some(*value));
        }
        assert_eq!((Pair::of("up"), format!("{:<6}|", Pair::Left)), (None, "left  |".to_owned()));
        assert!(serde_json::from_str::<Pair>("\"up\"").is_err());
        assert!(Pair::Left == "left" && Pair::Left != "far_right");
    }
}
