//! Signs of secrets on a command line: names of options and variables, shapes of tokens, programs with short
//! options.
//!
//! Data only. Masking too much costs the reader a value; masking too little reveals a password.

/// The value of an option is secret if a part of its name ends so: `--db-password`, `PGPASSWORD`,
/// `authToken`. Digits and the `s` of a plural may follow.
pub(super) const ENDS: [&str; 19] = [
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
    "mnemonic",
    "connectionstring",
];

/// The same for the last part of a name as a whole: each of them also ends harmless words.
pub(super) const LAST: [&str; 16] = [
    "passin",
    "passout",
    "pw",
    "auth",
    "cookie",
    "bearer",
    "jwt",
    "dsn",
    "sas",
    "otp",
    "sig",
    "signature",
    "psk",
    "pat",
    "requirepass",
    "masterauth",
];

/// Last parts of names that end with `pass`, as `dbpass` and `storepass` do, and are harmless.
pub(super) const NO_PASSWORDS: [&str; 17] = [
    "allpass",
    "bandpass",
    "bypass",
    "compass",
    "encompass",
    "firstpass",
    "highpass",
    "lowpass",
    "multipass",
    "onepass",
    "prepass",
    "renderpass",
    "singlepass",
    "subpass",
    "surpass",
    "trespass",
    "twopass",
];

/// Words before `key` that make it secret.
pub(super) const KEYS: [&str; 34] = [
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
    "decryption",
    "crypto",
    "cipher",
    "preshared",
    "pass",
    "fernet",
    "vault",
    "unseal",
    "recovery",
    "wifi",
];

/// Words before `key` whose value may as well be the path of a key: a path stays.
pub(super) const KEYS_OR_PATHS: [&str; 16] = [
    "ssh",
    "tls",
    "ssl",
    "hmac",
    "aes",
    "rsa",
    "dsa",
    "ecdsa",
    "gpg",
    "pgp",
    "host",
    "server",
    "cosign",
    "wg",
    "wireguard",
    "ca",
];

/// Name endings whose value is a place or a method, not a secret.
pub(super) const NO_VALUES: [&str; 29] = [
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
    "helper",
    "backend",
    "method",
    "mode",
    "format",
    "algorithm",
    "version",
    "expiry",
];

/// Words before `token` that mean tokens of language models.
pub(super) const MODEL_TOKENS: [&str; 14] = [
    "eos", "bos", "pad", "unk", "sep", "cls", "mask", "stop", "special", "per", "image", "next", "first",
    "each",
];

/// Words before `tokens` that make it a count.
pub(super) const TOKEN_COUNTS: [&str; 5] = ["max", "min", "num", "add", "added"];

/// Values that are no secrets.
pub(super) const PLAIN: [&str; 12] =
    ["true", "false", "on", "off", "yes", "no", "none", "null", "auto", "always", "never", "default"];

/// Words of a command in which the word after the bare name of a secret is its value: `config set password
/// abc`.
pub(super) const SETTERS: [&str; 6] = ["set", "setx", "--set", "config", "configure", "put"];

/// Parts of a function's name that set a value: `setPassword(abc)`.
pub(super) const CALLS: [&str; 4] = ["set", "with", "use", "put"];

/// Names of options that take `user:password`.
pub(super) const USERS: [&str; 4] = ["user", "userpwd", "username", "login"];

/// Words before a secret, as in a header.
pub(super) const SCHEMES: [&str; 6] = ["bearer", "basic", "digest", "negotiate", "apikey", "token"];

/// Beginnings of well-known tokens, and the fewest characters that follow: letters, digits, `-`, `_` and `.`.
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

/// URLs whose path is the secret itself.
pub(super) const SECRET_PATHS: [&str; 8] = [
    "hooks.slack.com/services/",
    "hooks.slack.com/workflows/",
    "hooks.slack.com/triggers/",
    "api.telegram.org/bot",
    "discord.com/api/webhooks/",
    "discordapp.com/api/webhooks/",
    "webhook.office.com/",
    "hooks.zapier.com/hooks/catch/",
];

/// Prefixes of `user/password@host`.
pub(super) const SLASHED: [&str; 3] = ["jdbc:oracle:thin:", "jdbc:oracle:oci:", "jdbc:oracle:oci8:"];

/// Words before a colon, in front of an `@`, that are no user with a password.
pub(super) const NO_USERS: [&str; 31] = [
    "ssh",
    "tcp",
    "udp",
    "unix",
    "mailto",
    "sip",
    "sips",
    "xmpp",
    "acct",
    "im",
    "from",
    "to",
    "cc",
    "bcc",
    "sender",
    "email",
    "mail",
    "author",
    "reply-to",
    "npm",
    "pkg",
    "jsr",
    "github",
    "gitlab",
    "workspace",
    "file",
    "jdbc",
    "oracle",
    "thin",
    "oci",
    "oci8",
];

/// Words after an `@` that are no hosts: digests, versions and kinds of packages.
pub(super) const NO_HOSTS: [&str; 11] =
    ["sha1", "sha224", "sha256", "sha384", "sha512", "md5", "blake3", "latest", "aar", "jar", "pom"];

/// Endings of a host's name that files do not have.
pub(super) const HOSTS: [&str; 12] =
    ["com", "net", "org", "io", "dev", "app", "cloud", "local", "localhost", "internal", "lan", "svc"];
