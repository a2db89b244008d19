import ReloadWorkers
import WidgetModel

/// Options and defaults help a person to configure a widget, and optional endpoints agree with the manifest.
enum ConfigurationRules: LintRuleGroup {
    static let noOptions = LintRule(
        "configuration/no-options", .warning, "A parameter with dynamic options has some",
        advice: "Answer an error instead of an empty list if the options are not available.")
    static let noDefault = LintRule(
        "configuration/no-default", .note, "A parameter with a dynamic default gets one",
        advice: "Answer a value, or leave dynamicDefault out of the manifest.")
    static let noSnapshot = LintRule(
        "configuration/no-snapshot", .note, "A kind with snapshots has the endpoint",
        advice: "Serve POST {url}/snapshot, or set snapshots: false in the manifest.")

    static let rules = [noOptions, noDefault, noSnapshot]

    static func skipped(in observation: LintObservation) -> [LintSkip] {
        guard !observation.kind.isDeclared else { return [] }
        return [noOptions, noDefault].map {
            LintSkip(
                rule: $0, kind: observation.kind.name, reason: "the parameters are in the manifest; give --manifest")
        }
    }

    static func findings(in observation: LintObservation) -> [LintFinding] {
        var empty: [String] = []
        var undecided: [String] = []
        let parameters = observation.kind.definition.intent?.parameters ?? []
        for choice in observation.choices {
            switch choice.answer {
            case .options(let options)? where options.sections.allSatisfy(\.items.isEmpty):
                // A parameter with a search may have options only for a term.
                let searches = parameters.contains { $0.name == choice.name && $0.searchPrompt != nil }
                if !searches { empty.append("the parameter \(choice.name) has no options") }
            case .defaults(let values)?:
                undecided += parameters.filter { $0.hasDynamicDefault && values.value[$0.name] == nil }
                    .map { "the parameter \($0.name) has no default" }
            case .options?, nil: break
            }
        }
        let absent = observation.snapshots.compactMap(\.timing.failure).filter(\.saysAbsent)
        return observation.findings(at: [
            noOptions: empty, noDefault: undecided, noSnapshot: absent.map { "POST /snapshot: \($0.message)" },
        ])
    }
}
