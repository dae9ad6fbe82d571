//! The figures of MACE that are played on the simulator alone, in their quick forms.

use experiments::experiment::{Finding, RunOptions, find};

fn quick(name: &str) -> Finding {
    let experiment = find(name).unwrap_or_else(|| panic!("{name} is no experiment"));
    let finding = (experiment.run)(&RunOptions::quick()).unwrap_or_else(|error| panic!("{error}"));
    println!("{}", finding.text());
    assert_eq!(finding.shortfalls, Vec::<String>::new());
    finding
}

#[test]
fn figures_14_to_16_show_that_measured_sum_uses_more_and_spaces_about_as_well() {
    let finding = quick("mace-fig14");
    for row in ["POO1", "POO2"] {
        let mean = |rule| finding.measured("14", &format!("{row}, {rule}"), "mean").expect("a mean");
        let highest = finding.measured("14", &format!("{row}, SSAC"), "highest").expect("a highest");
        assert!(mean("MBAC") > 1.3 * mean("SSAC") && highest > mean("SSAC"), "{row}");
    }
    let near = |table, rule| finding.measured(table, rule, "within 25 %").expect("a share");
    assert!(near("16", "MBAC") > 95.0 && near("16", "SSAC") > near("15", "SSAC"));
    let names: Vec<&str> = finding.figures.iter().map(|figure| figure.name.as_str()).collect();
    assert_eq!(names, ["mace-fig14-poo1", "mace-fig14-poo2", "mace-fig15", "mace-fig16"]);
    for figure in &finding.figures {
        assert!(figure.chart.as_ref().is_some_and(|chart| chart.has_room() && chart.lines[0].points.len() > 50));
    }
}

#[test]
fn figure_5_is_rough_beside_packets_of_one_length() {
    let finding = quick("mace-fig5");
    assert!(finding.values["roughness_one_length"] > 3.0 && finding.values["roughness_random"] < 2.0);
    assert!(finding.figures[0].chart.as_ref().is_some_and(|chart| chart.has_room() && chart.lines.len() == 2));
}
