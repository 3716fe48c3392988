//! # published: tables of the GUPFS report and its companions, as printed
//!
//! Owns   the figures that were published, where they stand, and which figures of ours they are beside.
//! Never  scales, corrects or adds to them.
//! Enter  at [`find`].

use std::collections::BTreeMap;

use serde::Deserialize;

/// Tables and what a plan calls them.
const TEXTS: [(&str, &str); 8] = [
    ("gupfs-table-1", include_str!("gupfs-table-1.toml")),
    ("gupfs-table-b1", include_str!("gupfs-table-b1.toml")),
    ("gupfs-table-b2", include_str!("gupfs-table-b2.toml")),
    ("gupfs-table-b3", include_str!("gupfs-table-b3.toml")),
    (
        "storage-tests-2005",
        include_str!("storage-tests-2005.toml"),
    ),
    ("osc-sam-fs", include_str!("osc-sam-fs.toml")),
    ("osc-one-file", include_str!("osc-one-file.toml")),
    ("llnl-milestone", include_str!("llnl-milestone.toml")),
];

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub title: String,
    pub source: String,
    /// A sentence about the measurement.
    pub about: String,
    pub unit: String,
    /// The variable that `at` has values of. Without one, a series has one value.
    pub variable: Option<String>,
    #[serde(default)]
    pub at: Vec<String>,
    pub series: Vec<Row>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The system that was measured.
    pub system: String,
    /// Our figures that measure the same.
    pub figures: Vec<String>,
    /// Other variables, where the table has them.
    #[serde(default)]
    pub with: BTreeMap<String, String>,
    pub values: Vec<f64>,
}

/// The tables of these names.
pub fn find(names: &[String]) -> Result<Vec<Table>, String> {
    names.iter().map(|name| table(name)).collect()
}

fn table(name: &str) -> Result<Table, String> {
    let (_, text) = TEXTS
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(|| {
            let known: Vec<&str> = TEXTS.iter().map(|(known, _)| *known).collect();
            format!(
                "there is no published table '{name}'; there are {}",
                known.join(", ")
            )
        })?;
    Ok(toml::from_str(text).expect("a test reads each table"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(table: &str, system: &str, figure: &str, at: &str, with: &[(&str, &str)]) -> f64 {
        let table = super::table(table).unwrap();
        let at = table.at.iter().position(|value| value == at).unwrap_or(0);
        let with: BTreeMap<_, _> = with
            .iter()
            .map(|(a, b)| (a.to_string(), b.to_string()))
            .collect();
        let row = table.series.iter().find(|row| {
            row.system == system && row.figures.iter().any(|f| f == figure) && row.with == with
        });
        row.unwrap().values[at]
    }

    #[test]
    fn each_table_is_whole() {
        for (name, _) in TEXTS {
            let table = table(name).unwrap();
            for row in &table.series {
                assert_eq!(row.values.len(), table.at.len().max(1), "{name}: {row:?}");
                assert!(row.values.iter().all(|value| *value > 0.0));
            }
            assert_eq!(table.variable.is_some(), !table.at.is_empty(), "{name}");
        }
        assert!(
            super::find(&["x".into()])
                .unwrap_err()
                .contains("gupfs-table-1")
        );
    }

    #[test]
    fn figures_are_those_that_were_printed() {
        assert_eq!(
            value("gupfs-table-1", "GFS 5.1", "Create-C", "3", &[]),
            76.0
        );
        assert_eq!(value("gupfs-table-1", "GFS 5.1", "Untar", "8", &[]), 1415.0);
        let record = [("record", "1M")];
        assert_eq!(
            value("gupfs-table-b1", "QLogic 2340", "Seq_Read", "20", &record),
            216.33
        );
        let record = [("record", "32K")];
        assert_eq!(
            value("gupfs-table-b2", "QLogic 2340", "Seq_Write", "1", &record),
            37.29
        );
        let np = [("np", "5")];
        assert_eq!(
            value("gupfs-table-b3", "gfs (tcp-hi)", "Read", "64K", &np),
            1255.47
        );
        assert_eq!(
            value("storage-tests-2005", "Lustre, DDN", "Seq_Read", "", &[]),
            780.0
        );
        assert_eq!(
            value("storage-tests-2005", "Panasas × 2", "Influx", "", &[]),
            380.0
        );
        assert_eq!(value("llnl-milestone", "uBGL", "Seq_Read", "", &[]), 1268.0);
    }
}
