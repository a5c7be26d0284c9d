//! The table of tokens that are known by how they begin.

use super::body::Class;

/// A kind of token.
#[derive(Debug)]
pub(super) struct Token {
    /// How it begins.
    pub(super) prefix: &'static str,
    /// What follows.
    pub(super) class: Class,
    /// At least so much of it.
    pub(super) least: usize,
    /// Whether names begin like this too: then it must look made by a machine.
    pub(super) opaque: bool,
    /// At most so much of it, and nothing like it behind.
    pub(super) exact: bool,
    pub(super) kind: &'static str,
}

const fn token(prefix: &'static str, class: Class, least: usize, kind: &'static str) -> Token {
    Token {
        prefix,
        class,
        least,
        opaque: false,
        exact: false,
        kind,
    }
}

/// One whose prefix is no rare word.
const fn plain(prefix: &'static str, class: Class, least: usize) -> Token {
    Token {
        opaque: true,
        ..token(prefix, class, least, "api-key")
    }
}

/// Longer prefixes stand before shorter ones that they begin with.
pub(super) const TOKENS: &[Token] = &[
    token("github_pat_", Class::Word, 10, "github-token"),
    token("ghp_", Class::Alnum, 10, "github-token"),
    token("gho_", Class::Alnum, 10, "github-token"),
    token("ghu_", Class::Alnum, 10, "github-token"),
    token("ghs_", Class::Alnum, 10, "github-token"),
    token("ghr_", Class::Alnum, 10, "github-token"),
    token("glpat-", Class::Dashed, 10, "gitlab-token"),
    token("gloas-", Class::Dashed, 10, "gitlab-token"),
    token("gldt-", Class::Dashed, 10, "gitlab-token"),
    token("glcbt-", Class::Dashed, 10, "gitlab-token"),
    token("glptt-", Class::Dashed, 10, "gitlab-token"),
    token("glft-", Class::Dashed, 10, "gitlab-token"),
    token("glimt-", Class::Dashed, 10, "gitlab-token"),
    token("glagent-", Class::Dashed, 10, "gitlab-token"),
    token("glsoat-", Class::Dashed, 10, "gitlab-token"),
    token("glffct-", Class::Dashed, 10, "gitlab-token"),
    token("glrtr-", Class::Dotted, 10, "gitlab-token"),
    token("glrt-", Class::Dotted, 10, "gitlab-token"),
    token("glwt-", Class::Dashed, 10, "gitlab-token"),
    token("GR1348941", Class::Dashed, 10, "gitlab-token"),
    token("xoxb-", Class::Dashed, 10, "slack-token"),
    token("xoxa-", Class::Dashed, 10, "slack-token"),
    token("xoxp-", Class::Dashed, 10, "slack-token"),
    token("xoxr-", Class::Dashed, 10, "slack-token"),
    token("xoxs-", Class::Dashed, 10, "slack-token"),
    token("xoxe-", Class::Dashed, 10, "slack-token"),
    token("xapp-", Class::Dashed, 10, "slack-token"),
    Token {
        exact: true,
        ..token("AKIA", Class::Alnum, 16, "aws-key")
    },
    Token {
        exact: true,
        ..token("ASIA", Class::Alnum, 16, "aws-key")
    },
    token("AIza", Class::Dashed, 30, "api-key"),
    token("gAAAAAB", Class::Dashed, 20, "api-key"),
    token("sk_live_", Class::Alnum, 10, "api-key"),
    token("sk_test_", Class::Alnum, 10, "api-key"),
    token("rk_live_", Class::Alnum, 10, "api-key"),
    token("rk_test_", Class::Alnum, 10, "api-key"),
    token("dop_v1_", Class::Alnum, 10, "api-key"),
    token("doo_v1_", Class::Alnum, 10, "api-key"),
    token("bb_live_", Class::Dashed, 10, "api-key"),
    token("retaindb_", Class::Alnum, 10, "api-key"),
    plain("sk-", Class::Dotted, 10),
    plain("sk_", Class::Word, 10),
    plain("pk-lf-", Class::Dashed, 8),
    plain("pplx-", Class::Alnum, 10),
    plain("tvly-", Class::Dashed, 10),
    plain("hsk-", Class::Alnum, 10),
    plain("fal_", Class::Dashed, 10),
    plain("fc-", Class::Alnum, 10),
    plain("SG.", Class::Dotted, 10),
    plain("pypi-", Class::Dashed, 10),
    plain("hf_", Class::Alnum, 10),
    plain("r8_", Class::Alnum, 10),
    plain("npm_", Class::Alnum, 10),
    plain("exa_", Class::Alnum, 10),
    plain("gsk_", Class::Alnum, 10),
    plain("syt_", Class::Word, 10),
    plain("mem0_", Class::Alnum, 10),
    plain("brv_", Class::Alnum, 10),
    plain("ntn_", Class::Alnum, 10),
    plain("am_org_", Class::Alnum, 20),
    plain("am_", Class::Alnum, 20),
    plain("xai-", Class::Alnum, 30),
    plain("fw-", Class::Alnum, 20),
    plain("fw_", Class::Alnum, 20),
    plain("fpk_", Class::Alnum, 20),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_stands_before_those_that_it_begins_with() {
        for (at, token) in TOKENS.iter().enumerate() {
            for later in TOKENS.get(at + 1..).unwrap_or_default() {
                assert!(
                    !later.prefix.starts_with(token.prefix),
                    "{} hides {}",
                    token.prefix,
                    later.prefix
                );
            }
        }
    }

    #[test]
    fn kinds_are_those_of_markers() {
        for token in TOKENS {
            assert!(super::super::marker::KINDS.contains(&token.kind));
        }
    }
}
