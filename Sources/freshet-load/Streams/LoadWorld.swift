// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import FreshetService
import JSON
import Randomness
import SampleProvider
import WidgetEvents
import WidgetModel
import WidgetStore

/// A synthetic app: people with some widgets each, whose kinds go round. Everything follows from an index.
///
/// Person `i` is user `u<i>` with device `d<i>`; the widgets `w<n>` are numbered through.
struct LoadWorld: Sendable, Equatable {
    static let defaultApp = "com.example.load"

    var app = Self.defaultApp
    let users: Int
    var widgetsPerUser = 1
    let kinds: [String]
    /// Largest number of timelines in one request to the provider.
    var maxBatch = 500
    /// Whether everyone's widgets of a kind show one timeline.
    var isShared = false

    private static let environment = WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London")

    var widgets: Int { users * widgetsPerUser }

    func kind(of widget: Int) -> String { kinds[widget % kinds.count] }
    func person(of widget: Int) -> Int { widget / widgetsPerUser }

    /// - Parameter provider: URL without a path.
    func definition(provider: String) -> AppDefinition {
        AppDefinition(
            name: app, developerMode: true,
            kinds: kinds.map { kind in
                KindDefinition(
                    name: kind, displayName: kind, description: "for load tests",
                    families: [.systemSmall, .systemMedium], sharing: isShared ? .shared : .perUser,
                    providerURL: provider + "/load", maxBatch: maxBatch,
                    timeout: .seconds(10), placeholder: ["title": "Load"], hasSnapshots: false)
            })
    }

    func placement(_ widget: Int) -> WidgetPlacement {
        let person = person(of: widget)
        return WidgetPlacement(
            app: app, widget: "w\(widget)", user: "u\(person)", device: "d\(person)", kind: kind(of: widget),
            family: .systemSmall,
            // Two widgets of one kind of one person are two timelines.
            configuration: WidgetConfiguration(storedCanonical: "{\"account\":\"\(widget % widgetsPerUser)\"}"),
            environment: Self.environment)
    }

    /// Identity of a widget's timeline.
    func timeline(of widget: Int) -> TimelineIdentity {
        let placement = placement(widget)
        return TimelineIdentity(
            app: app, kind: placement.kind, sharing: .perUser, variesBy: .all, family: placement.family,
            configuration: placement.configuration, environment: placement.environment, user: placement.user)
    }

    /// A push for one widget.
    func reload(_ widget: Int) -> FreshetEvent {
        FreshetEvent(
            ReloadRequest(
                app: app, audience: .widget("w\(widget)"), kinds: .kinds([kind(of: widget)]), reason: .push))
    }

    /// A push for everyone and all kinds.
    var reloadOfEverything: FreshetEvent {
        FreshetEvent(ReloadRequest(app: app, audience: .everyone, kinds: .all, reason: .push))
    }
}

extension LoadWorld {
    /// A world with the kinds `Load0`, `Load1`, and so on.
    init(app: String = Self.defaultApp, users: Int, widgetsPerUser: Int = 1, kinds: Int) {
        self.init(app: app, users: users, widgetsPerUser: widgetsPerUser, kinds: (0..<kinds).map { "Load\($0)" })
    }

    /// Registers the app.
    ///
    /// - Returns: the registered kinds, in the order of the world's.
    func register(in store: WidgetStore, provider: String) async throws -> [RegisteredKind] {
        try await store.register([definition(provider: provider)])
        let directory = try await DirectoryCache(pool: store.pool).refresh()
        guard let registered = directory.apps[app] else {
            throw CommandFailure(.failure, "the app \(app) could not be registered")
        }
        let found = kinds.compactMap { directory.kind($0, of: registered) }
        guard found.count == kinds.count else {
            throw CommandFailure(.failure, "the kinds of \(app) could not be registered")
        }
        return found
    }

    /// Registers the app and imports the widgets; their timelines are due at once, in the bulk lane.
    func place(in store: WidgetStore, provider: String) async throws {
        let registered = try await register(in: store, provider: provider)
        let chunk = 20_000
        for first in stride(from: 0, to: widgets, by: chunk) {
            Terminal.progress("importing widgets: \(first) of \(widgets)")
            let time = Timestamp.now()
            _ = try await store.importWidgets(
                (first..<min(first + chunk, widgets)).map { widget in
                    ImportedWidget(placement: placement(widget), kind: registered[widget % kinds.count], time: time)
                })
        }
    }
}

/// Size of the world whose widgets a scenario reloads, on the command line.
struct LoadWorldOptions: ParsableArguments {
    @Option(help: "Number of people.", transform: OptionText.number(1...10_000_000))
    var users = 50_000

    @Option(help: "Number of widgets of each person.", transform: OptionText.number(1...100))
    var widgetsPerUser = 4

    @Option(help: "Number of kinds.", transform: OptionText.number(1...1_000))
    var kinds = 20

    var world: LoadWorld { LoadWorld(users: users, widgetsPerUser: widgetsPerUser, kinds: kinds) }
}

/// Random choice of widgets: all equally often, or by Zipf's law over people, and over the widgets of each person.
struct PopularWidgets: Sendable {
    private let world: LoadWorld
    private let ranks: (people: ZipfRanks, widgets: ZipfRanks)?

    /// Creates a choice among the widgets of a world.
    ///
    /// - Parameter exponent: exponent of Zipf's law; nil for equal popularity.
    init(of world: LoadWorld, exponent: Double?) {
        self.world = world
        ranks = exponent.map {
            (ZipfRanks(count: world.users, exponent: $0), ZipfRanks(count: world.widgetsPerUser, exponent: $0))
        }
    }

    /// Returns the index of a random widget in the world.
    func next(using random: inout SeededGenerator) -> Int {
        let person = ranks.map { $0.people.sample(using: &random) - 1 } ?? random.below(world.users)
        let place = ranks.map { $0.widgets.sample(using: &random) - 1 } ?? random.below(world.widgetsPerUser)
        return person * world.widgetsPerUser + place
    }
}

/// Options of events that wait in Kafka when the service starts.
struct BacklogOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Popularity of people and their widgets: \(Self.form).", valueName: "form"))
    var distribution = "uniform"

    @Option(
        help: "Passes, each of all the events: the last is the result, the first the cold one.",
        transform: OptionText.number(1...10))
    var passes = 2

    private static let form = "uniform, zipf, or zipf:s (s from 0.1 to 5)"

    func validate() throws { _ = try exponent() }

    /// Returns the exponent of Zipf's law; nil for equal popularity.
    ///
    /// - Throws: `ValidationError`, which names the option.
    func exponent() throws -> Double? {
        do throws(ValidationError) {
            let shape = try StreamDistribution.parse(distribution, day: 60)
            if shape.profile == .steady { return shape.exponent }
        } catch {
            throw ValidationError("--distribution \(distribution): expected \(Self.form)")
        }
        throw ValidationError(
            "--distribution \(distribution): expected \(Self.form); what waits in Kafka has no rate that could change")
    }
}

/// Ranks 1, 2, … n, the most popular first, with frequencies proportional to rank^-s.
///
/// Sampled by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone
/// discrete distributions", 1996): constant time and memory whatever n is, about 1.1 draws a sample.
struct ZipfRanks: Sendable, Equatable {
    let count: Int
    let exponent: Double

    private let integralOfFirst: Double
    private let integralOfLast: Double
    private let acceptance: Double

    /// - Parameters:
    ///   - count: n, at least 1.
    ///   - exponent: s, over 0; 1 is Zipf's law.
    init(count: Int, exponent: Double) {
        self.count = max(1, count)
        self.exponent = exponent
        integralOfFirst = Self.integral(1.5, exponent: exponent) - 1
        integralOfLast = Self.integral(Double(self.count) + 0.5, exponent: exponent)
        acceptance =
            2
            - Self.inverse(
                Self.integral(2.5, exponent: exponent) - Self.density(2, exponent: exponent), exponent: exponent)
    }

    /// A rank from 1 to `count`.
    func sample(using random: inout SeededGenerator) -> Int {
        while true {
            let area = integralOfLast + random.unit() * (integralOfFirst - integralOfLast)
            let position = Self.inverse(area, exponent: exponent)
            let rank = min(max(1, Int(position + 0.5)), count)
            let distance = Double(rank) - position
            if distance <= acceptance
                || area >= Self.integral(Double(rank) + 0.5, exponent: exponent)
                    - Self.density(Double(rank), exponent: exponent)
            {
                return rank
            }
        }
    }

    /// x^-s.
    private static func density(_ x: Double, exponent s: Double) -> Double { exp(-s * log(x)) }

    /// The integral of ``density(_:exponent:)`` from 1 to x, well-behaved around s = 1.
    private static func integral(_ x: Double, exponent s: Double) -> Double {
        let logarithm = log(x)
        let exponent = (1 - s) * logarithm
        let factor = abs(exponent) > 1e-8 ? expm1(exponent) / exponent : 1 + exponent / 2 * (1 + exponent / 3)
        return factor * logarithm
    }

    private static func inverse(_ area: Double, exponent s: Double) -> Double {
        let argument = max(-1, area * (1 - s))
        let factor = abs(argument) > 1e-8 ? log1p(argument) / argument : 1 - argument / 2 + argument * argument / 3
        return exp(factor * area)
    }
}
