//! What tells a secret on a command line: names of options and variables, shapes of tokens, programs with short options.
//!
//! Data alone. Too much that is masked costs a reader a value; too little gives somebody's password away.

/// What an option of this name takes is secret if a part of the name ends so: `--db-password`, `PGPASSWORD`, `authToken`.
pub(super) const ENDS: [&str; 17] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "secrets",
    "token",
    "credential",
    "credentials",
    "creds",
    "authorization",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "sharedkey",
];

/// The same, of a name's last part as a whole: each of them is also the end of harmless words.
pub(super) const LAST: [&str; 15] = [
    "pass", "sshpass", "userpass", "dbpass", "passin", "passout", "pw", "auth", "cookie", "bearer", "jwt",
    "dsn", "sas", "otp", "sig",
];

/// Before `key`.
pub(super) const KEYS: [&str; 24] = [
    "api",
    "access",
    "private",
    "secret",
    "account",
    "storage",
    "signing",
    "sign",
    "encryption",
    "master",
    "shared",
    "license",
    "session",
    "auth",
    "client",
    "app",
    "application",
    "admin",
    "service",
    "subscription",
    "root",
    "consumer",
    "webhook",
    "deploy",
];

/// Where a name ends so, its value says where or how, and not what.
pub(super) const NO_VALUES: [&str; 21] = [
    "file",
    "path",
    "dir",
    "directory",
    "stdin",
    "env",
    "prompt",
    "name",
    "type",
    "length",
    "len",
    "size",
    "count",
    "limit",
    "ttl",
    "policy",
    "budget",
    "ratio",
    "rate",
    "index",
    "provider",
];

/// Before `token`: those of language models.
pub(super) const MODEL_TOKENS: [&str; 14] = [
    "eos", "bos", "pad", "unk", "sep", "cls", "mask", "stop", "special", "per", "image", "next", "first",
    "each",
];

/// `user:password` is what these take.
pub(super) const USERS: [&str; 4] = ["user", "userpwd", "username", "login"];

/// What follows one of these words, as in a header, is secret.
pub(super) const SCHEMES: [&str; 6] = ["bearer", "basic", "digest", "negotiate", "apikey", "token"];

/// Begins of well-known tokens, and how many more characters of letters, digits, `-`, `_` and `.` there are at least.
pub(super) const SHAPES: [(&str, usize); 38] = [
    ("hf_", 16),
    ("ghp_", 16),
    ("gho_", 16),
    ("ghu_", 16),
    ("ghs_", 16),
    ("ghr_", 16),
    ("github_pat_", 16),
    ("glpat-", 16),
    ("gldt-", 16),
    ("glrt-", 16),
    ("sk-", 16),
    ("sk_live_", 12),
    ("sk_test_", 12),
    ("rk_live_", 12),
    ("whsec_", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxa-", 10),
    ("xoxs-", 10),
    ("xapp-", 10),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("ya29.", 16),
    ("npm_", 16),
    ("pypi-", 16),
    ("dckr_pat_", 16),
    ("dop_v1_", 16),
    ("SG.", 20),
    ("nvapi-", 16),
    ("gsk_", 16),
    ("r8_", 16),
    ("shpat_", 16),
    ("lin_api_", 16),
    ("hvs.", 16),
    ("eyJ", 20),
    ("AGE-SECRET-KEY-", 10),
    ("tskey-", 10),
];

/// A short option of these programs, by the begin of the program's name.
pub(super) struct Short {
    pub(super) program: &'static str,
    pub(super) option: char,
    /// It takes `user:password`.
    pub(super) is_user: bool,
    /// What follows as a word of its own belongs to it too.
    pub(super) takes_next: bool,
}

const fn short(program: &'static str, option: char, is_user: bool, takes_next: bool) -> Short {
    Short { program, option, is_user, takes_next }
}

pub(super) const SHORT: [Short; 17] = [
    short("mysql", 'p', false, false),
    short("mariadb", 'p', false, false),
    short("7z", 'p', false, false),
    short("sshpass", 'p', false, true),
    short("mongo", 'p', false, true),
    short("docker", 'p', false, true),
    short("podman", 'p', false, true),
    short("influx", 'p', false, true),
    short("redis-cli", 'a', false, true),
    short("valkey-cli", 'a', false, true),
    short("ldap", 'w', false, true),
    short("sqlcmd", 'P', false, true),
    short("unzip", 'P', false, true),
    short("zip", 'P', false, true),
    short("curl", 'u', true, true),
    short("curl", 'U', true, true),
    short("ab", 'A', true, true),
];
