//! Policy files as operators write them: what a good one means, and what is said of a bad one.

mod damage;
mod faults;
mod meaning;
mod schema;

use tidegate::config::Faults;
use tidegate::model::{Policies, Policy};

/// The files of `examples/policies`.
const EXAMPLES: [&str; 5] = [
    include_str!("../../examples/policies/video.yaml"),
    include_str!("../../examples/policies/payments.yaml"),
    include_str!("../../examples/policies/api-gateway.yaml"),
    include_str!("../../examples/policies/backend.yaml"),
    include_str!("../../examples/policies/internal.yaml"),
];

/// A file with one policy `p` of these lines.
fn file_with(policy: &str) -> String {
    let mut file = String::from("version: 1\npolicies:\n  p:\n");
    for line in policy.lines() {
        file.push_str("    ");
        file.push_str(line);
        file.push('\n');
    }
    file
}

/// The policy `p` of these lines.
fn policy(lines: &str) -> Policy {
    let policies =
        Policies::from_yaml(&file_with(lines)).unwrap_or_else(|faults| panic!("{faults}"));
    policies.get("p").expect("p").as_ref().clone()
}

/// What is wrong with a file.
fn faults_of(file: &str) -> Faults {
    match Policies::from_yaml(file) {
        Ok(policies) => panic!("taken: {policies:?}"),
        Err(faults) => faults,
    }
}

/// Each fault of a policy of these lines, as `line:column: path: problem` and its cure, the line
/// counted from the policy's first.
fn said_of(lines: &str) -> Vec<String> {
    let lines_before = 3;
    faults_of(&file_with(lines))
        .iter()
        .map(|fault| {
            let at = fault.at;
            let cure = fault.cure.as_deref().unwrap_or("-");
            let (line, column) = (at.line.saturating_sub(lines_before), at.column);
            format!(
                "{line}:{column}: {}: {} | {cure}",
                fault.path, fault.problem
            )
        })
        .collect()
}
