import ArgumentParser
import FreshetService
import WidgetEvents
import WidgetModel
import WidgetStore

extension WidgetsCommand {
    struct Configure: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Gives a widget other values of its parameters (freshet.widget.configured.v1).",
            discussion: """
                Parameters that are not named keep their values. A parameter with several values is named several times; \
                without a value it is removed. Values that the kind's intent does not allow are refused.

                Examples:
                  freshet widgets configure --app com.example.bank w1 card=acme category=groceries
                  freshet widgets configure --app com.example.bank w1 category=
                """)

        @Argument(help: "The widget's id.", transform: OptionText.identifier)
        var widget: String

        @Argument(help: ArgumentHelp("Values of parameters.", valueName: "parameter=value"))
        var values: [String]

        @Option(help: "The app's bundle identifier.", transform: OptionText.identifier)
        var app: String

        @OptionGroup var options: EventOptions

        func run() async throws {
            let (widget, kind) = try await options.settings.withStore { store, _ in
                let widget = try await WidgetLookup.widget(self.widget, of: app, in: store)
                return (widget, try await KindLookup.kind(widget.kind, of: app, in: store).definition)
            }
            let stored = widget.configuration.map { WidgetConfiguration(storedCanonical: $0) } ?? .empty
            let configuration: WidgetConfiguration
            do throws(ModelError) {
                configuration = try ParameterValues.assign(values, to: stored, of: kind.intent)
            } catch {
                throw ValidationError(error.message)
            }
            guard let family = widget.family else {
                throw CommandFailure(.failure, "this version does not know the widget's family: use a newer one")
            }
            let problems = kind.intent?.resolve(configuration, family: family).problems ?? []
            guard problems.isEmpty else {
                throw CommandFailure(
                    .failure, problems.map { "\($0.pointer.dropFirst()): \($0.message)" }.joined(separator: "\n"))
            }
            try await options.publish(
                FreshetEvent(app: app, .widget(.configured(widget: widget.id, configuration))), key: widget.user)
        }
    }
}

/// Reads values of parameters from a command line.
enum ParameterValues {
    /// The configuration with the assigned values.
    ///
    /// - Parameters:
    ///   - assignments: `name=value`; of a parameter with several values one for each; `name=` removes the value.
    ///   - intent: types of the parameters. Without one, text that is valid JSON is read as JSON.
    static func assign(
        _ assignments: [String], to configuration: WidgetConfiguration, of intent: IntentDefinition?
    ) throws(ModelError) -> WidgetConfiguration {
        var values = configuration.value.objectValue ?? JSONObject()
        var assigned: Set<String> = []
        for assignment in assignments {
            guard let separator = assignment.firstIndex(of: "="), separator > assignment.startIndex else {
                throw ModelError(message: "\(Text.quoted(assignment)): expected parameter=value, such as card=acme")
            }
            let name = String(assignment[..<separator])
            let text = String(assignment[assignment.index(after: separator)...])
            let parameter = intent?.parameter(name)
            let value = text.isEmpty ? JSONValue?.none : Self.value(text, of: parameter)
            let isFirst = assigned.insert(name).inserted
            if let parameter, parameter.count != .one, let single = value, single.arrayValue == nil {
                let others = isFirst ? [] : values[name]?.arrayValue ?? []
                values[name] = .array(others + [single])
            } else {
                values[name] = value
            }
        }
        return try WidgetConfiguration(.object(values))
    }

    private static func value(_ text: String, of parameter: IntentParameter?) -> JSONValue {
        let json = try? JSONValue.parse(text)
        switch (parameter?.type, json) {
        // Validation of the configuration reports values that do not fit.
        case (.string?, _), (.date?, _), (.url?, _): return .string(text)
        case (.person?, .object?), (.custom?, .object?), (.enumeration?, .object?): return json ?? .string(text)
        case (.person?, _), (.custom?, _), (.enumeration?, _): return .string(text)
        default: return json ?? .string(text)
        }
    }
}
