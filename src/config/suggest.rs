//! The word that was probably meant. Never guesses when nothing is near.

/// The choice nearest to `given`: at most two edits away (one in words of up to four letters),
/// where two swapped neighbours are one edit; hyphens counting as underscores and capitals as small letters.
pub fn nearest<'a>(given: &str, choices: &[&'a str]) -> Option<&'a str> {
    if given.len() > 64 {
        return None;
    }
    let normal = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    let given = normal(given);
    let edits_max = if given.chars().count() <= 4 { 1 } else { 2 };
    choices
        .iter()
        .map(|choice| (strsim::osa_distance(&given, &normal(choice)), *choice))
        .filter(|(edits, _)| *edits <= edits_max)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, choice)| choice)
}

/// "did you mean `x`?", or the choices when nothing is near.
pub(super) fn did_you_mean(given: &str, choices: &[&str]) -> String {
    match nearest(given, choices) {
        Some(choice) => format!("did you mean `{choice}`?"),
        None => format!("there are: {}", choices.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &[&str] = &["global", "region", "regions", "on_outage", "burst"];

    #[test]
    fn a_misspelt_word_finds_the_one_that_was_meant() {
        for (given, meant) in [
            ("globl", "global"),
            ("gloabl", "global"),
            ("on-outage", "on_outage"),
            ("Burst", "burst"),
            ("regoins", "regions"),
            ("regio", "region"),
        ] {
            assert_eq!(nearest(given, WORDS), Some(meant), "{given}");
        }
    }

    #[test]
    fn nothing_near_is_no_guess() {
        for given in ["limit", "", "x", &"g".repeat(1_000)] {
            assert_eq!(nearest(given, WORDS), None, "{given}");
        }
        assert!(did_you_mean("limit", WORDS).starts_with("there are: global, "));
    }
}
