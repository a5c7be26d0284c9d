//! Keys of the system whose home this is, in sections that it shares with us: they are its business.

/// Families of keys, by section and beginning.
const FAMILIES: [(&str, &str); 13] = [
    ("terminal", "docker_"),
    ("terminal", "podman_"),
    ("terminal", "ssh_"),
    ("terminal", "singularity_"),
    ("terminal", "modal_"),
    ("terminal", "daytona_"),
    ("terminal", "vercel_"),
    ("terminal", "container_"),
    ("terminal", "sudo_"),
    ("terminal", "local_"),
    ("security", "tirith_"),
    ("web", "cache_"),
    ("web", "keyless_"),
];

/// Single keys.
const NAMES: [(&str, &[&str]); 6] = [
    ("code_execution", &["kernel_mode", "enabled"]),
    (
        "terminal",
        &[
            "auto_source_bashrc",
            "background_timeout",
            "credential_files",
            "cwd",
            "daemon_term_grace_seconds",
            "env",
            "env_type",
            "font_family",
            "home_mode",
            "lifetime_seconds",
            "max_foreground_timeout",
            "oneshot_completion_wait_seconds",
            "persistent_shell",
            "sandbox_dir",
            "shell_init_files",
            "sync_back_max_bytes",
        ],
    ),
    (
        "approvals",
        &[
            "backend",
            "codex_guardian",
            "denial_breaker_threshold",
            "destructive_slash_confirm",
            "kanban_mode",
            "mcp_reload_confirm",
            "smart_policy",
        ],
    ),
    ("web", &["provider_tier", "use_gateway"]),
    (
        "security",
        &[
            "acked_advisories",
            "allow_lazy_installs",
            "allow_proxy_fake_ips",
            "approval",
            "policy",
            "protected_instruction_extra_patterns",
            "protected_instruction_files",
        ],
    ),
    ("logging", &["format", "memory_monitor"]),
];

/// Keys of that system that protect, by something that is not here: a sentence for each.
const PROTECTING: [(&str, &str, &str); 1] = [(
    "terminal",
    "local_exec_broker",
    "kernels run as you, not as another user through a broker; remove it if they may",
)];

/// Whether it is a key of that system's, and nobody's mistake.
pub(super) fn is_foreign(section: &str, name: &str) -> bool {
    FAMILIES
        .iter()
        .any(|(of, beginning)| *of == section && name.starts_with(beginning))
        || NAMES
            .iter()
            .any(|(of, names)| *of == section && names.contains(&name))
}

/// Why a key of that system's is refused, if it is.
pub(super) fn refused(section: &str, name: &str) -> Option<&'static str> {
    PROTECTING
        .iter()
        .find(|(of, key, _)| *of == section && *key == name)
        .map(|(.., sentence)| *sentence)
}
