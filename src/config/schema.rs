//! The JSON schema of a policy file, for editors and for checks before a deployment. It knows the
//! shapes; what only shows when the parts meet (a burst without a bucket, a region without its
//! ceiling) is the reader's to say.

/// The schema (draft 2020-12), as JSON text. It takes anything in the place of `"server": true`:
/// the server puts its own settings' schema there.
pub const SCHEMA_JSON: &str = include_str!("schema.json");

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::SCHEMA_JSON;
    use crate::config::{lease, policy, rate};
    use crate::model::Algorithm;

    fn names(schema: &Value, pointer: &str) -> Vec<String> {
        let object = schema
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{pointer}"));
        let mut names: Vec<_> = object.as_object().unwrap().keys().cloned().collect();
        names.sort();
        names
    }

    fn sorted<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let mut words: Vec<_> = words.into_iter().map(str::to_owned).collect();
        words.sort();
        words
    }

    #[test]
    fn the_schema_and_the_reader_know_the_same_keys() {
        let schema: Value = serde_json::from_str(SCHEMA_JSON).unwrap();
        let keys = [
            ("/properties", super::super::TOP_KEYS),
            ("/$defs/policy/properties", policy::POLICY_KEYS),
            ("/$defs/override/properties", policy::OVERRIDE_KEYS),
            ("/$defs/lease/properties", lease::LEASE_KEYS),
            (
                "/$defs/ceiling/anyOf/1/properties",
                rate::RateKeys::Ceiling.known(),
            ),
            (
                "/$defs/differing/anyOf/1/properties",
                rate::RateKeys::Differing.known(),
            ),
        ];
        for (pointer, known) in keys {
            assert_eq!(
                names(&schema, pointer),
                sorted(known.iter().copied()),
                "{pointer}"
            );
        }
    }

    #[test]
    fn the_schema_and_the_reader_know_the_same_words() {
        let schema: Value = serde_json::from_str(SCHEMA_JSON).unwrap();
        let words = |pointer: &str| {
            let list = schema
                .pointer(pointer)
                .unwrap_or_else(|| panic!("{pointer}"));
            sorted(list.as_array().unwrap().iter().map(|w| w.as_str().unwrap()))
        };
        assert_eq!(
            words("/$defs/algorithm/enum"),
            sorted(Algorithm::ALL.map(Algorithm::name))
        );
        let on_outage = policy::ON_OUTAGE.iter().map(|(word, _)| *word);
        assert_eq!(
            words("/$defs/policy/properties/on_outage/enum"),
            sorted(on_outage)
        );
        let clock = policy::CLOCK.iter().map(|(word, _)| *word);
        assert_eq!(words("/$defs/policy/properties/clock/enum"), sorted(clock));
    }
}
