//! Functions of well-known libraries, several under one name. They stand in `sources.toml`, so that they can
//! be read and disputed without reading code.

use serde::Deserialize;

use super::wanted::{self, Wanted};

/// The JSON that build.rs made of `sources.toml`.
static TABLE: &str = include_str!(concat!(env!("OUT_DIR"), "/sources.json"));

#[derive(Deserialize)]
struct Table {
    preset: Vec<Preset>,
}

#[derive(Deserialize)]
struct Preset {
    name: String,
    library: String,
    functions: Vec<Function>,
}

#[derive(Deserialize)]
struct Function {
    phase: String,
    symbol: String,
}

fn table() -> Vec<Preset> {
    // A test parses the same text.
    serde_json::from_str::<Table>(TABLE).map(|table| table.preset).unwrap_or_default()
}

/// The phases of a preset.
///
/// # Errors
/// No preset has this name; the error lists those that exist.
pub(super) fn named(name: &str) -> Result<Vec<Wanted>, String> {
    let presets = table();
    let Some(preset) = presets.iter().find(|preset| preset.name == name) else {
        let names: Vec<&str> = presets.iter().map(|preset| preset.name.as_str()).collect();
        return Err(format!(
            "must be NAME=LIB:SYMBOL[:argN], NAME=usdt:LIB:PROVIDER:PROBE[:argN] or one of {}",
            names.join(", ")
        ));
    };
    let wanted = preset.functions.iter().map(|function| {
        let place = format!("{}:{}", preset.library, function.symbol);
        Ok(Wanted { is_preset: true, ..wanted::wanted(&function.phase, &place)? })
    });
    wanted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_preset_can_be_asked_for() {
        let names: Vec<String> = table().into_iter().map(|preset| preset.name).collect();
        assert_eq!(names, ["llama.cpp", "onnxruntime", "tensorflow", "triton", "loadgen", "nccl"]);
        for name in names {
            assert!(!named(&name).unwrap().is_empty(), "{name}");
        }
    }
}
