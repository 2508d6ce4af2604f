//! Table: options of well-known programs that take a secret.
//!
//! They are too short or too common to be secret for every program: `-p` is a port as often.

use super::{
    Secret::{self, After, AfterSlash, All, Opaque, Pairs},
    programs::Value::{Any, Joined, Next},
};

/// Programs with the same options.
pub(super) struct Program {
    /// Names of programs; with a star at the end, a prefix.
    names: &'static [&'static str],
    pub(super) options: &'static [Known],
}

/// An option.
pub(super) struct Known {
    /// The option as it is typed. An empty one stands for each word.
    pub(super) name: &'static str,
    /// The secret part of its value.
    pub(super) secret: Secret,
    pub(super) value: Value,
}

/// Place of an option's value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Joined,
    Next,
    /// Joined or next.
    Any,
}

const fn of(name: &'static str, secret: Secret, value: Value) -> Known {
    Known { name, secret, value }
}

const COLON: Secret = After(':');
const PERCENT: Secret = After('%');

/// The program of this name.
pub(super) fn program(name: &str) -> Option<&'static Program> {
    let name = name.strip_suffix(".exe").unwrap_or(name);
    let is_meant =
        |known: &&str| known.strip_suffix('*').map_or(name == *known, |begin| name.starts_with(begin));
    PROGRAMS.iter().find(|program| program.names.iter().any(is_meant))
}

/// Where the names of two programs or options share a prefix, the longer one comes first.
const PROGRAMS: &[Program] = &[
    Program {
        names: &["mysqladmin", "mariadb-admin"],
        options: &[of("password", All, Next), of("-p", All, Joined)],
    },
    Program { names: &["mysql*", "mariadb*"], options: &[of("-p", All, Joined)] },
    Program {
        names: &["smb*", "rpcclient", "net", "winexe"],
        options: &[of("-U", PERCENT, Any), of("--user=", PERCENT, Joined), of("--user", PERCENT, Next)],
    },
    Program { names: &["rar", "unrar"], options: &[of("-hp", All, Joined), of("-p", All, Joined)] },
    Program { names: &["redis-cli", "valkey-cli"], options: &[of("-a", All, Any)] },
    Program { names: &["7z*"], options: &[of("-p", All, Joined)] },
    Program {
        names: &[
            "sshpass",
            "mongo*",
            "docker*",
            "podman*",
            "influx*",
            "cqlsh",
            "twine",
            "pkcs11-tool",
            "useradd",
            "usermod",
            "rdesktop",
        ],
        options: &[of("-p", All, Any)],
    },
    Program { names: &["ldap*"], options: &[of("-w", All, Any)] },
    Program {
        names: &["sqlcmd", "bcp", "tsql", "unzip", "zip*", "mosquitto*"],
        options: &[of("-P", All, Any)],
    },
    Program {
        names: &["curl*"],
        options: &[
            of("-u", COLON, Any),
            of("-U", COLON, Any),
            of("-b", Pairs, Any),
            of("-E", COLON, Any),
            of("--cert", COLON, Next),
            of("--proxy-cert", COLON, Next),
        ],
    },
    Program { names: &["http", "https", "xh", "xhs"], options: &[of("-a", COLON, Any)] },
    Program { names: &["ab"], options: &[of("-A", COLON, Any), of("-P", COLON, Any)] },
    Program { names: &["lftp"], options: &[of("-u", After(','), Any)] },
    Program { names: &["openssl"], options: &[of("-k", All, Next), of("-K", All, Next)] },
    Program { names: &["ssh-keygen"], options: &[of("-N", All, Any), of("-P", All, Any)] },
    Program { names: &["ipmitool"], options: &[of("-P", All, Any), of("-k", All, Any), of("-y", All, Any)] },
    Program {
        names: &[
            "snmpget*",
            "snmpwalk",
            "snmpbulk*",
            "snmpset",
            "snmptrap",
            "snmpinform",
            "snmptable",
            "snmpstatus",
            "snmpusm",
        ],
        options: &[of("-A", All, Any), of("-X", All, Any), of("-c", Opaque, Any)],
    },
    Program {
        names: &["xfreerdp*", "wlfreerdp*", "sdl-freerdp*"],
        options: &[of("/p:", All, Joined), of("/gp:", All, Joined), of("/pth:", All, Joined)],
    },
    Program { names: &["az"], options: &[of("-p", All, Any), of("--value", All, Next)] },
    Program { names: &["nmcli"], options: &[of("password", All, Next)] },
    Program { names: &["rclone"], options: &[of("obscure", All, Next)] },
    Program { names: &["vault"], options: &[of("login", All, Next)] },
    Program {
        names: &["sqlplus", "sqlcl", "sqlldr", "expdp", "impdp", "rman"],
        options: &[of("userid=", AfterSlash, Joined), of("", AfterSlash, Joined)],
    },
];
