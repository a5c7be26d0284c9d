//! Variables that never reach a kernel, whoever asks for them: the agent's own credentials for its
//! providers and for the services that it speaks through.

/// Names as they are, compared without case.
const NAMES: &[&str] = &[
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "BRAVE_API_KEY",
    "BRAVE_SEARCH_API_KEY",
    "DAYTONA_API_KEY",
    "EXA_API_KEY",
    "FIRECRAWL_API_KEY",
    "FIRECRAWL_API_URL",
    "GATEWAY_ALLOWED_USERS",
    "GATEWAY_RELAY_DELIVERY_KEY",
    "GATEWAY_RELAY_ID",
    "GATEWAY_RELAY_SECRET",
    "GH_TOKEN",
    "GITHUB_APP_ID",
    "GITHUB_APP_INSTALLATION_ID",
    "GITHUB_APP_PRIVATE_KEY_PATH",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "HERMES_DASHBOARD_SESSION_TOKEN",
    "HERMES_GATEWAY_TOKEN",
    "LLM_MODEL",
    "MODAL_TOKEN_ID",
    "MODAL_TOKEN_SECRET",
    "OPENAI_ORGANIZATION",
    "OPENAI_ORG_ID",
    "PARALLEL_API_KEY",
    "REPLICATE_API_TOKEN",
    "SEARXNG_URL",
    "TAVILY_API_KEY",
    "TAVILY_API_URL",
    "VERCEL_OIDC_TOKEN",
    "VERCEL_PROJECT_ID",
    "VERCEL_TEAM_ID",
    "VERCEL_TOKEN",
    "VERTEX_CREDENTIALS_PATH",
];

/// Providers of models, by which their keys and addresses are called.
const PROVIDERS: &[&str] = &[
    "ANTHROPIC",
    "AZURE",
    "AZURE_OPENAI",
    "CEREBRAS",
    "COHERE",
    "DEEPSEEK",
    "ELEVENLABS",
    "FIREWORKS",
    "GEMINI",
    "GLM",
    "GOOGLE",
    "GROQ",
    "HELICONE",
    "KIMI",
    "MINIMAX",
    "MISTRAL",
    "MOONSHOT",
    "NOUS",
    "NVIDIA",
    "OLLAMA",
    "OPENAI",
    "OPENROUTER",
    "PERPLEXITY",
    "REPLICATE",
    "SAMBANOVA",
    "TOGETHER",
    "VOYAGE",
    "XAI",
    "ZAI",
];
/// What follows the name of a provider.
const OF_PROVIDERS: &[&str] = &["_API_KEY", "_BASE_URL", "_API_BASE"];

/// Settings of messengers: their beginnings.
const FAMILIES: &[&str] = &[
    "TELEGRAM_",
    "DISCORD_",
    "SLACK_",
    "WHATSAPP_",
    "SIGNAL_",
    "HASS_",
    "EMAIL_",
];

/// Beginnings with the endings that make a credential of them.
const PATTERNS: &[(&str, &[&str])] = &[
    ("AUXILIARY_", &["_API_KEY", "_BASE_URL"]),
    ("GATEWAY_RELAY_", &["_SECRET", "_KEY", "_TOKEN"]),
];

/// Variables by which Warmcell itself tells its processes something; a caller has no say in them.
const OWN: &[&str] = &[
    "HERMES_RPC_SOCKET",
    "HERMES_RPC_TOKEN",
    "WARMCELL_DROPPED",
    "WARMCELL_FORKSERVER",
    "WARMCELL_HIDDEN",
];

/// Whether a variable of this name never passes from a caller into a kernel, also where it is named on
/// purpose: a credential of the agent's own, or one of Warmcell's.
pub fn never_passes(name: &str) -> bool {
    OWN.contains(&name) || is_provider_credential(name)
}

/// Whether a variable of this name is a credential of the agent's own: it never passes, also where it
/// is named on purpose.
pub fn is_provider_credential(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    NAMES.contains(&name.as_str())
        || PROVIDERS.iter().any(|provider| {
            let rest = name.strip_prefix(provider);
            rest.is_some_and(|rest| OF_PROVIDERS.contains(&rest))
        })
        || FAMILIES.iter().any(|family| name.starts_with(family))
        || PATTERNS.iter().any(|(beginning, endings)| {
            name.starts_with(beginning) && endings.iter().any(|ending| name.ends_with(ending))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_providers_are_known_in_any_case() {
        for name in [
            "OPENAI_API_KEY",
            "openai_api_key",
            "Anthropic_Base_Url",
            "TELEGRAM_BOT_TOKEN",
            "AUXILIARY_VISION_API_KEY",
            "GATEWAY_RELAY_X_TOKEN",
            "GH_TOKEN",
            "DEEPSEEK_BASE_URL",
            "GEMINI_API_KEY",
        ] {
            assert!(is_provider_credential(name) && never_passes(name), "{name}");
        }
        for name in OWN {
            assert!(
                never_passes(name) && !is_provider_credential(name),
                "{name}"
            );
        }
        for name in [
            "MY_API_TOKEN",
            "OPENAI_API_KEY_2",
            "AUXILIARY_X",
            "FOO",
            "",
            "CLAUDE_CODE_OAUTH_TOKEN",
        ] {
            assert!(
                !is_provider_credential(name) && !never_passes(name),
                "{name}"
            );
        }
    }
}
