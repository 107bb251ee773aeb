//! The JSON schema of a policy file with its `server` section: the library's, and the settings' put
//! in their place.

use tidegate::config::SCHEMA_JSON;

const SERVER_SCHEMA: &str = include_str!("schema.json");

/// What the library's schema says of the section.
const ANYTHING: &str = "\"server\": true";

/// The schema (draft 2020-12), as JSON text.
pub(crate) fn schema_json() -> String {
    let server = SERVER_SCHEMA.trim_end().replace('\n', "\n    ");
    SCHEMA_JSON.replace(ANYTHING, &format!("\"server\": {server}"))
}
