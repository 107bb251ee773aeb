//! Policies to start from, built in: what `serve` enforces without a file, and what
//! `config example` prints. The same files lie in `examples/policies/`.

/// An example file.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// Its name.
    pub name: &'static str,
    /// What it is for, in a line.
    pub purpose: &'static str,
    /// Its text.
    pub yaml: &'static str,
}

/// All examples; no two name the same policy.
pub const EXAMPLES: &[Example] = &[
    Example {
        name: "video",
        purpose: "the tiers of a video API",
        yaml: include_str!("../../../examples/policies/video.yaml"),
    },
    Example {
        name: "payments",
        purpose: "a payment endpoint that fails closed",
        yaml: include_str!("../../../examples/policies/payments.yaml"),
    },
    Example {
        name: "api-gateway",
        purpose: "AWS API Gateway's default throttle",
        yaml: include_str!("../../../examples/policies/api-gateway.yaml"),
    },
    Example {
        name: "backend",
        purpose: "a queue before a backend of fixed capacity",
        yaml: include_str!("../../../examples/policies/backend.yaml"),
    },
    Example {
        name: "internal",
        purpose: "cheap counting between services",
        yaml: include_str!("../../../examples/policies/internal.yaml"),
    },
];

const POLICIES_LINE: &str = "\npolicies:\n";

/// All examples in one file.
pub fn examples_yaml() -> String {
    let mut all = String::from("version: 1\npolicies:\n");
    for (n, example) in EXAMPLES.iter().enumerate() {
        let (_, policies) = example.yaml.split_once(POLICIES_LINE).unwrap_or_default();
        all.push_str(if n == 0 { "" } else { "\n" });
        all.push_str(policies);
    }
    all
}
