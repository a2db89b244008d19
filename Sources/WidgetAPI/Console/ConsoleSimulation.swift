// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import JSON
import Synchronization
import Waiting
import WidgetModel
import WidgetSimulator
import WidgetStore

/// Simulations in the console: synthetic people, and providers that are made up. One runs at a time.
///
/// Providers are not asked: a manifest of a form must not make the service call its URLs.
final class ConsoleSimulation: Sendable {
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

    private let isRunning = Atomic(false)

    /// Options of a form.
    ///
    /// - Parameter fields: texts by name; `from` is a day, today by default.
    static func options(
        _ fields: [String: String], now: Timestamp
    ) throws(Problem) -> SimulationOptions {
        func text(_ name: String) -> String { fields[name] ?? defaults[name] ?? "" }
        func number(_ name: String, _ range: ClosedRange<Int>) throws(Problem) -> Int {
            guard let number = Int(text(name)), range.contains(number) else {
                throw .unprocessable(
                    "/\(name)", detail: "expected a number from \(range.lowerBound) to \(range.upperBound)")
            }
            return number
        }
        let days = try number("days", Self.days)
        let people = try number("people", Self.people)
        guard people * days <= Self.maximumPersonDays else {
            throw .unprocessable(
                "/people", detail: "expected at most \(Self.maximumPersonDays) days of all people together")
        }
        guard let seed = UInt64(text("seed")) else { throw .unprocessable("/seed", detail: "expected a number") }
        let day = text("from").isEmpty ? LocalClock.utc.date(now) : text("from")
        guard Self.firstDays.contains(day), let from = Timestamp(rfc3339: "\(day)T00:00:00Z") else {
            throw .unprocessable("/from", detail: "expected a day such as 2026-06-22, from 2000 to 2099")
        }
        var options = SimulationOptions(from: from, days: days)
        options.seed = seed
        options.people = people
        return options
    }

    /// Simulates the people on an app's kinds.
    static func run(
        _ options: SimulationOptions, on app: AppDefinition
    ) async throws -> SimulationReport {
        guard Self.kinds.contains(app.kinds.count) else {
            throw Problem.unprocessable(
                "/manifest",
                detail: "expected \(Self.kinds.lowerBound) to \(Self.kinds.upperBound) kinds, found \(app.kinds.count)")
        }
        let report = try await withTimeLimit(timeLimit, priority: .utility) {
            try await simulationReport([app], options: options)
        }
        guard let report else {
            throw Problem.unprocessable(
                "/people", detail: "the simulation takes longer than \(Self.timeLimit.seconds(roundedUp: 1)) s")
        }
        return report
    }

    /// - Throws: ``Problem`` while another simulation runs.
    func alone<Value>(_ body: () async throws -> Value) async throws -> Value {
        guard !isRunning.exchange(true, ordering: .acquiringAndReleasing) else {
            throw Problem.conflict("another simulation runs in this process; try again later")
        }
        defer { isRunning.store(false, ordering: .releasing) }
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
        view["maximumPersonDays"] = ConsolePage.grouped("\(ConsoleSimulation.maximumPersonDays)")
        return page("simulator", title: "Simulator", view)
    }

    func simulate() async throws -> ConsolePage {
        var values: [String: String] = [:]
        for name in Self.fields { values[name] = call.text(name)?.replacing("\r\n", with: "\n") }
        do throws(Problem) {
            let report = try await run("consoleSimulation") { [values] routes, caller in
                var options = try ConsoleSimulation.options(values, now: Timestamp.now())
                options.rotation = routes.resources.rotation
                let app = try await simulatedApp(values["manifest"], routes, caller)
                return try await console.simulations.alone { [options] in
                    try await ConsoleSimulation.run(options, on: app)
                }
            }
            let options = report.options
            let day = LocalClock.utc.date(options.from)
            let name = "\(options.people) people, \(options.days) days from \(day)"
            return simulator(values, ["html": report.section(name)])
        } catch {
            guard error.isOfForm else { throw error }
            return simulator(values, ["problem": error.detail])
        }
    }

    /// The app of a manifest, or the app's kinds as they are.
    private func simulatedApp(
        _ manifest: String?, _ routes: Routes, _ caller: Caller
    ) async throws -> AppDefinition {
        if let manifest {
            let apps = try console.definitions(manifest, of: caller.app)
            return AppDefinition(
                name: caller.app, developerMode: apps.contains(where: \.developerMode), kinds: apps.flatMap(\.kinds))
        }
        let kinds = try await routes.kinds(for: caller).map(\.kind)
        return AppDefinition(
            name: caller.app, developerMode: kinds.first?.isDeveloperMode ?? false, kinds: kinds.map(\.definition))
    }
}
