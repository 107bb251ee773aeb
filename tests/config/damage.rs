//! Files that were damaged, by chance or on purpose: each is read or refused, at a place that is
//! in the file.

use proptest::prelude::*;
use tidegate::model::Policies;

use super::{EXAMPLES, faults_of};

/// Pieces that mean something to YAML or to the reader.
const PIECES: &[&str] = &[
    "\n",
    "  ",
    "\t",
    ":",
    ": ",
    "- ",
    "? ",
    "[",
    "]",
    "{",
    "}",
    ",",
    "#",
    "&a ",
    "*a",
    "!x ",
    "|\n",
    ">-\n",
    "'",
    "\"",
    "\\",
    "---\n",
    "...\n",
    "%YAML 9\n",
    "<<",
    "\u{feff}",
    "\u{0}",
    "\u{85}",
    "\u{2028}",
    "é",
    "🌊",
    "\r\n",
    "\r",
    "unlimited",
    "0/s",
    "99999999999999999999/s",
    "~",
    "null",
    "burst: 0",
    "global: {",
    "overrides:",
    "lease: {period: 1s}",
    "delay: true",
    "-1",
    "1e3",
];

#[derive(Clone, Debug)]
enum Damage {
    Cut(usize, usize),
    Insert(usize, usize),
    Repeat(usize, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<usize>(), 1..40usize).prop_map(|(at, len)| Damage::Cut(at, len)),
        (any::<usize>(), 0..PIECES.len()).prop_map(|(at, piece)| Damage::Insert(at, piece)),
        (any::<usize>(), 1..80usize).prop_map(|(at, len)| Damage::Repeat(at, len)),
    ]
}

fn damaged(text: &str, damages: &[Damage]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for damage in damages {
        let place = |at: usize| at % (chars.len() + 1);
        match *damage {
            Damage::Cut(at, len) => {
                let at = place(at);
                let end = (at + len).min(chars.len());
                chars.drain(at..end);
            }
            Damage::Insert(at, piece) => {
                let at = place(at);
                chars.splice(at..at, PIECES[piece].chars());
            }
            Damage::Repeat(at, len) => {
                let at = place(at);
                let piece: Vec<char> = chars[at..(at + len).min(chars.len())].to_vec();
                chars.splice(at..at, piece);
            }
        }
    }
    chars.into_iter().collect()
}

fn is_judged(text: &str) {
    let Err(faults) = Policies::from_yaml(text) else {
        return;
    };
    assert!(!faults.is_empty());
    let lines = text.split(['\n', '\r']).count();
    for fault in faults.iter() {
        let at = fault.at;
        assert!(
            (1..=lines + 1).contains(&at.line),
            "{fault} of {lines} lines"
        );
        assert!(at.column >= 1 && !fault.problem.is_empty(), "{fault}");
    }
    assert!(faults.iter().map(|fault| fault.at).is_sorted());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn a_damaged_file_is_read_or_refused_at_its_places(
        example in 0..EXAMPLES.len(),
        damages in prop::collection::vec(damage(), 1..6),
    ) {
        is_judged(&damaged(EXAMPLES[example], &damages));
    }

    #[test]
    fn so_is_any_heap_of_pieces(pieces in prop::collection::vec(0..PIECES.len(), 0..40)) {
        is_judged(&pieces.iter().map(|piece| PIECES[*piece]).collect::<String>());
    }
}

#[test]
fn lines_may_end_as_on_windows() {
    let text = EXAMPLES[0].replace('\n', "\r\n");
    assert_eq!(Policies::from_yaml(&text), Policies::from_yaml(EXAMPLES[0]));
    let faults = faults_of("version: 1\r\npolicies:\r\n  p: {algorithm: x, global: 5/s}\r\n");
    assert!(
        faults.to_string().starts_with("3:18: policies.p.algorithm"),
        "{faults}"
    );
}
