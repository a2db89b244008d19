import HTTPTypes
import JSON
import Synchronization
import WidgetModel
import WidgetSimulator

/// Input of a simulation in the console: synthetic people, and providers that are made up.
///
/// Providers are not asked: a manifest of a form must not make the service call its URLs.
struct ConsoleSimulation: Sendable {
    static let days = 1...31
    static let people = 1...1_000
    private static let firstDays = "2000-01-01"..."2099-12-31"
    /// Most days of all people together, which take a few seconds.
    static let maximumPersonDays = 5_000
    /// Each kind has a chart, and may have a provider of its own, whose load is counted by minute.
    static let kinds = 1...50
    /// Time after which a simulation is given up.
    static let timeLimit = Duration.seconds(30)
    /// Names of the fields, and their values in a new form.
    static let defaults = ["days": "7", "people": "200", "seed": "1"]

    private let people: Int
    private let options: SimulationOptions

    /// - Parameter fields: texts by name; `from` is a day, today by default.
    init(_ fields: JSONValue, now: Timestamp) throws(Problem) {
        func text(_ name: String) -> String { fields[name]?.stringValue ?? Self.defaults[name] ?? "" }
        func number(_ name: String, _ range: ClosedRange<Int>) throws(Problem) -> Int {
            guard let number = Int(text(name)), range.contains(number) else {
                throw .unprocessable(
                    "/\(name)", "expected a number from \(range.lowerBound) to \(range.upperBound)")
            }
            return number
        }
        let days = try number("days", Self.days)
        people = try number("people", Self.people)
        guard people * days <= Self.maximumPersonDays else {
            throw .unprocessable("/people", "expected at most \(Self.maximumPersonDays) days of all people together")
        }
        guard let seed = UInt64(text("seed")) else { throw .unprocessable("/seed", "expected a number") }
        let day = text("from").isEmpty ? String(now.rfc3339.prefix(10)) : text("from")
        guard Self.firstDays.contains(day), let from = Timestamp(rfc3339: "\(day)T00:00:00Z") else {
            throw .unprocessable("/from", "expected a day such as 2026-06-22, from 2000 to 2099")
        }
        var options = SimulationOptions(from: from, days: days)
        options.seed = seed
        self.options = options
    }

    /// Simulates the people on an app's kinds.
    func run(_ app: AppDefinition, rotation: RotationPolicy) async throws -> SimulationReport {
        guard Self.kinds.contains(app.kinds.count) else {
            throw Problem.unprocessable(
                "/manifest",
                "expected \(Self.kinds.lowerBound) to \(Self.kinds.upperBound) kinds, found \(app.kinds.count)")
        }
        var options = options
        options.rotation = rotation
        let report = try await withTimeLimit(Self.timeLimit, priority: .utility) { [options] in
            try await simulationReport([app], Population.Options(people: people), options: options)
        }
        guard let report else {
            throw Problem.unprocessable(
                "/people", "the simulation takes longer than \(Self.timeLimit.seconds(roundedUp: 1)) s")
        }
        return report
    }
}

/// Lets one simulation run at a time.
final class SimulationTurn: Sendable {
    private let isTaken = Atomic(false)

    /// - Throws: ``Problem`` while another simulation runs.
    func run<Value>(_ body: () async throws -> Value) async throws -> Value {
        guard !isTaken.exchange(true, ordering: .acquiringAndReleasing) else {
            throw Problem.conflict("another simulation runs in this process; try again later")
        }
        defer { isTaken.store(false, ordering: .releasing) }
        return try await body()
    }
}

// MARK: The page

extension ConsoleVisit {
    private static let fields = ["manifest", "from", "days", "people", "seed"]

    /// The form, with a report or an error after it was sent.
    func simulator(_ values: [String: String] = ConsoleSimulation.defaults, _ shown: [String: Any] = [:])
        -> ConsolePage
    {
        var view = shown
        for name in Self.fields { view[name] = values[name] ?? "" }
        view["maximumDays"] = "\(ConsoleSimulation.days.upperBound)"
        view["maximumPeople"] = "\(ConsoleSimulation.people.upperBound)"
        view["maximumPersonDays"] = ConsoleView.grouped("\(ConsoleSimulation.maximumPersonDays)")
        return page("simulator", "Simulator", view)
    }

    func simulate(_ fields: ConsoleFields) async throws -> ConsolePage {
        var values: [String: String] = [:]
        var body = JSONObject()
        for name in Self.fields {
            values[name] = fields[name]?.replacing("\r\n", with: "\n")
            body[name] = values[name].map(JSONValue.string)
        }
        do throws(Problem) {
            let result = try await call("consoleSimulation", body: .object(body))
            return simulator(values, ["html": "\(raw: result["section"]?.stringValue ?? "")" as HTML])
        } catch {
            guard error.status.kind == .clientError, error.status != .forbidden else { throw error }
            return simulator(values, ["problem": error.detail])
        }
    }
}
