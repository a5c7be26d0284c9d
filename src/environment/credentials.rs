//! Variables that never reach a kernel, whoever asks for them: the agent's own credentials for its
//! providers and for the services that it speaks through.

/// Names as they are, compared without case.
const NAMES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "BRAVE_SEARCH_API_KEY",
    "COHERE_API_KEY",
    "DAYTONA_API_KEY",
    "DEEPSEEK_API_KEY",
    "EXA_API_KEY",
    "FIRECRAWL_API_KEY",
    "FIRECRAWL_API_URL",
    "FIREWORKS_API_KEY",
    "GATEWAY_ALLOWED_USERS",
    "GATEWAY_RELAY_DELIVERY_KEY",
    "GATEWAY_RELAY_ID",
    "GATEWAY_RELAY_SECRET",
    "GH_TOKEN",
    "GITHUB_APP_ID",
    "GITHUB_APP_INSTALLATION_ID",
    "GITHUB_APP_PRIVATE_KEY_PATH",
    "GOOGLE_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GROQ_API_KEY",
    "HELICONE_API_KEY",
    "HERMES_DASHBOARD_SESSION_TOKEN",
    "LLM_MODEL",
    "MISTRAL_API_KEY",
    "MODAL_TOKEN_ID",
    "MODAL_TOKEN_SECRET",
    "OPENAI_API_BASE",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_ORGANIZATION",
    "OPENAI_ORG_ID",
    "OPENROUTER_API_KEY",
    "PARALLEL_API_KEY",
    "PERPLEXITY_API_KEY",
    "SEARXNG_URL",
    "TAVILY_API_KEY",
    "TAVILY_API_URL",
    "TOGETHER_API_KEY",
    "VERCEL_OIDC_TOKEN",
    "VERCEL_PROJECT_ID",
    "VERCEL_TEAM_ID",
    "VERCEL_TOKEN",
    "VERTEX_CREDENTIALS_PATH",
    "XAI_API_KEY",
];

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

/// Whether a variable of this name is a credential of the agent's own: it never passes, also where it
/// is named on purpose.
pub fn is_provider_credential(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    NAMES.contains(&name.as_str())
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
        ] {
            assert!(is_provider_credential(name), "{name}");
        }
        for name in [
            "MY_API_TOKEN",
            "OPENAI_API_KEY_2",
            "AUXILIARY_X",
            "FOO",
            "",
            "CLAUDE_CODE_OAUTH_TOKEN",
        ] {
            assert!(!is_provider_credential(name), "{name}");
        }
    }
}
