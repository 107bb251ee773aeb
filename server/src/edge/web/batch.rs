//! `POST /v1/checks`: many checks in one request, answered in their order and by one deadline.
//!
//! They are begun in their order, up to [`AT_ONCE_MAX`] at once. Those of one policy, subject and
//! region meet in its lane and ride together, so they are also decided in that order. Never lets one
//! bad entry cost the others their answer.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{self, StreamExt as _};
use serde::de::{DeserializeSeed, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::{answer, app::App, request};
use crate::edge::problem::{Problem, ProblemBody};
use tidegate::model::{Check, Decision};
use tidegate::store::Store;

/// How many checks of one batch are asked at once: a lane has room for them, and for others'.
const AT_ONCE_MAX: usize = 1_024;

/// The body: its entries stay text until each is read for itself.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchBody<'a> {
    #[serde(borrow)]
    checks: &'a RawValue,
}

/// One entry's answer.
type Answer = Result<Decision, Problem>;

#[derive(Serialize)]
#[serde(untagged)]
enum Entry<'a> {
    Decided(&'a Decision),
    Faulty { error: ProblemBody<'a> },
}

#[derive(Serialize)]
struct Answers<'a> {
    decisions: Vec<Entry<'a>>,
}

/// Decides and charges each entry.
pub(super) async fn checks<S: Store>(State(app): State<Arc<App<S>>>, request: Request) -> Response {
    let began = Instant::now();
    let (head, body) = request.into_parts();
    let json = match request::body(&head.headers, body, &app.settings).await {
        Ok(json) => json,
        Err(problem) => return problem.into_response(),
    };
    let entries = match entries(&json, app.settings.batch_max) {
        Ok(entries) => entries,
        Err(problem) => return problem.into_response(),
    };
    let answers = decide(&app, entries, began).await;
    let decisions = answers
        .iter()
        .map(|answer| match answer {
            Ok(decision) => Entry::Decided(decision),
            Err(problem) => Entry::Faulty {
                error: problem.body(),
            },
        })
        .collect();
    let mut response = answer::ok(&Answers { decisions });
    answer::forbid_storing(response.headers_mut());
    response
}

/// The entries in their order, each a check or what is wrong with it.
fn entries(json: &[u8], batch_max: usize) -> Result<Vec<Result<Check, Problem>>, Problem> {
    request::is_object(json)?;
    let body: BatchBody<'_> = serde_json::from_slice(json).map_err(|error| {
        let said = request::quoted(&error.to_string());
        Problem::malformed(format!("write {{\"checks\": [...]}}: {said}"))
    })?;
    let mut deserializer = serde_json::Deserializer::from_str(body.checks.get());
    let texts = Bounded(batch_max)
        .deserialize(&mut deserializer)
        .map_err(|error| Problem::malformed(format!("checks: {error}")))?;
    Ok(texts
        .into_iter()
        .map(|text| request::check(text.get().as_bytes()))
        .collect())
}

/// Reads a list of at most so many entries: a longer one is rejected before it takes up memory.
struct Bounded(usize);

impl<'de> DeserializeSeed<'de> for Bounded {
    type Value = Vec<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Bounded {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of checks")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = list.next_element()? {
            if texts.len() == self.0 {
                let rule = format!("a batch holds at most {} checks", self.0);
                return Err(A::Error::custom(rule));
            }
            texts.push(text);
        }
        Ok(texts)
    }
}

async fn decide<S: Store>(
    app: &App<S>,
    entries: Vec<Result<Check, Problem>>,
    began: Instant,
) -> Vec<Answer> {
    let deadline = Instant::now() + app.limiter.deadline();
    let decide = |entry: Result<Check, Problem>| async move {
        let answer = app.limiter.check_by(&entry?, deadline).await;
        if let Ok(decision) = &answer {
            app.decided(decision, began);
        }
        answer.map_err(|error| app.problem(&error))
    };
    stream::iter(entries)
        .map(decide)
        .buffered(AT_ONCE_MAX)
        .collect()
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_entry_is_its_own_error_and_the_others_stay() {
        let json = br#"{"checks":[{"policy":"p","subject":"a"},{"policy":"p"},7,
            {"policy":"p","subject":"b","cost":-1},{"policy":"p","subject":"c","cost":2}]}"#;
        let entries = entries(json, 10).unwrap();
        let good: Vec<_> = entries.iter().map(Result::is_ok).collect();
        assert_eq!(good, [true, false, false, false, true]);
    }

    #[test]
    fn an_entry_that_says_a_thing_twice_is_rejected() {
        let json = br#"{"checks":[{"policy":"p","subject":"a","cost":1,"cost":9}]}"#;
        assert!(entries(json, 10).unwrap()[0].is_err());
    }

    #[test]
    fn a_batch_is_a_list_of_at_most_so_many() {
        let many = |n: usize| format!("{{\"checks\":[{}]}}", vec!["0"; n].join(","));
        assert_eq!(entries(many(3).as_bytes(), 3).unwrap().len(), 3);
        let problem = entries(many(4).as_bytes(), 3).err().unwrap();
        assert!(problem.detail.contains("at most 3"), "{}", problem.detail);
        for json in [
            "[]",
            "[[]]",
            "{}",
            r#"{"checks":{}}"#,
            r#"{"checks":[],"x":1}"#,
            "{",
            "",
        ] {
            assert!(entries(json.as_bytes(), 3).is_err(), "{json}");
        }
        assert_eq!(entries(br#"{"checks":[]}"#, 3).unwrap().len(), 0);
    }
}
