// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import Synchronization
import WidgetModel

/// An app of the run, with the content of its provider.
struct ChaosApp: Sendable {
    let name: String
    let isInDeveloperMode: Bool
    let kinds: [ChaosKind]
    /// Secret of the signatures.
    let secret: [UInt8]

    /// Path in the provider's URL.
    var path: String { name.split(separator: ".").last.map(String.init) ?? name }
    var secretVariable: String { "CHAOS_SECRET_\(path.uppercased())" }
}

struct ChaosKind: Sendable {
    enum Policy: Sendable {
        case never
        /// Reloads at every multiple of this many seconds.
        case after(seconds: Int)
        case atEnd(seconds: Int)
    }

    let definition: KindDefinition
    let policy: Policy
    /// The shown version is the source's version modulo this value, so that earlier contents return.
    let modulus: Int?
    /// Whether each answer has a volatile member.
    var isVolatile: Bool { !definition.volatileFields.isEmpty }

    func shown(_ version: Int) -> Int { modulus.map { version % $0 } ?? version }
}

/// A widget that does not change during the run.
struct StableWidget: Sendable {
    let placement: WidgetPlacement
    /// Index of the widget's timeline in ``ChaosWorld/timelines``.
    let timeline: Int
}

/// A timeline of stable widgets.
struct StableTimeline: Sendable {
    let id: TimelineID
    let identity: TimelineIdentity
    let group: Int
}

/// Apps, kinds, people with their widgets, and versions of the sources from which the providers answer.
///
/// A source's version grows before the event about it is published. A fetch after that event was applied is therefore
/// answered with that version or a later one.
final class ChaosWorld: Sendable {
    /// The content that an event changes.
    enum Source: Hashable, Sendable {
        case app(String)
        case kind(String, String)
        case group(String, String, Int)
        case timeline(TimelineID)
        /// A person whose widgets come and go.
        case person(String, String)
    }

    static let groups = 5

    let apps: [ChaosApp]
    /// Apps that random events are about: all but the crowd's.
    let active: [ChaosApp]
    let users: [String]
    /// People whose widgets come and go.
    let movers: [String]
    /// People whose devices have a wrong clock now and then.
    let misdated = ["w0", "w1", "w2"]
    /// People with many widgets of one app, whose reloads make large audiences.
    let crowd: [String]
    let widgets: [StableWidget]
    let timelines: [StableTimeline]
    /// Indices of timelines by app and user, app and device, and app and widget.
    let ofUser: [String: [Int]]
    let ofDevice: [String: [Int]]
    let ofWidget: [String: Int]
    private let versions = Mutex<[Source: Int]>([:])

    static func key(_ app: String, _ id: String) -> String { "\(app) \(id)" }

    /// App of the crowd.
    static let crowdApp = "com.chaos.delta"
    /// Number of each of its widgets.
    private static let crowdWidgets = 60
    /// App whose provider is behind ``GoAwayFront``.
    static let frontedApp = "com.chaos.gamma"

    /// - Parameters:
    ///   - crowdCount: Number of people in the crowd; its app exists if there are any.
    ///   - timeout: Time limit of the providers.
    init(
        seed: UInt64, users userCount: Int, movers moverCount: Int, crowd crowdCount: Int = 0,
        timeout: Duration = .seconds(2)
    ) {
        var random = SeededRandom(seed: seed, stream: "world")
        active = Self.makeApps(&random, timeout)
        apps = active + (crowdCount > 0 ? [Self.makeCrowdApp(&random, timeout)] : [])
        crowd = (0..<crowdCount).map { "c\($0)" }
        users = (0..<userCount).map { "u\($0)" }
        movers = (0..<moverCount).map { "m\($0)" }
        var widgets: [StableWidget] = []
        var timelines: [StableTimeline] = []
        var indices: [TimelineID: Int] = [:]
        var ofUser: [String: [Int]] = [:]
        var ofDevice: [String: [Int]] = [:]
        var ofWidget: [String: Int] = [:]
        func add(_ placement: WidgetPlacement, of kind: ChaosKind) {
            let identity = kind.definition.identity(of: placement)
            let id = identity.id
            let index = indices[id] ?? timelines.count
            if indices[id] == nil {
                indices[id] = index
                timelines.append(StableTimeline(id: id, identity: identity, group: Self.group(of: identity)))
            }
            widgets.append(StableWidget(placement: placement, timeline: index))
            ofUser[Self.key(placement.app, placement.user), default: []].append(index)
            ofDevice[Self.key(placement.app, placement.device), default: []].append(index)
            ofWidget[Self.key(placement.app, placement.widget)] = index
        }
        for app in active {
            for (number, user) in users.enumerated() {
                for kind in app.kinds {
                    for device in 0..<2 {
                        add(Self.placement(of: kind, in: app, user: user, number: number, device: device), of: kind)
                    }
                }
            }
        }
        for kind in apps.first(where: { $0.name == Self.crowdApp })?.kinds ?? [] {
            for user in crowd {
                for slot in 0..<Self.crowdWidgets {
                    add(Self.crowdPlacement(of: kind, user: user, slot: slot), of: kind)
                }
            }
        }
        self.widgets = widgets
        self.timelines = timelines
        self.ofUser = ofUser.mapValues { Array(Set($0)).sorted() }
        self.ofDevice = ofDevice.mapValues { Array(Set($0)).sorted() }
        self.ofWidget = ofWidget
    }

    func app(named name: String) -> ChaosApp? { apps.first { $0.name == name } }

    func kind(_ name: String, of app: String) -> ChaosKind? {
        self.app(named: app)?.kinds.first { $0.definition.name == name }
    }

    // MARK: Versions

    func raise(_ sources: [Source]) {
        versions.withLock { versions in
            for source in sources { versions[source, default: 0] += 1 }
        }
    }

    /// Current version of a timeline's content.
    func version(of identity: TimelineIdentity, id: TimelineID) -> Int {
        let group = Self.group(of: identity)
        return versions.withLock { versions in
            var version = versions[.app(identity.app)] ?? 0
            version += versions[.kind(identity.app, identity.kind)] ?? 0
            version += versions[.group(identity.app, identity.kind, group)] ?? 0
            version += versions[.timeline(id)] ?? 0
            if let user = identity.user { version += versions[.person(identity.app, user)] ?? 0 }
            return version
        }
    }

    static func group(of identity: TimelineIdentity) -> Int {
        identity.configuration.value["group"]?.numberValue?.int64.map { Int($0) } ?? -1
    }

    // MARK: Creation

    static func configuration(_ members: [(String, JSONValue)]) -> WidgetConfiguration {
        let object = JSONObject(members.map { (key: $0.0, value: $0.1) })
        return (try? WidgetConfiguration(.object(object))) ?? .empty
    }

    private static func placement(
        of kind: ChaosKind, in app: ChaosApp, user: String, number: Int, device: Int
    ) -> WidgetPlacement {
        let configuration: WidgetConfiguration
        if kind.definition.sharing == .shared {
            let place = (number + 7 * device) % 12
            configuration = Self.configuration([
                ("city", .string("c\(place)")), ("group", .number(JSONNumber(place % groups))),
            ])
        } else if number % 3 == 0 {
            // Both devices show one timeline.
            configuration = Self.configuration([("group", .number(JSONNumber(number % groups)))])
        } else {
            configuration = Self.configuration([("group", .number(JSONNumber((number + device) % groups)))])
        }
        return WidgetPlacement(
            app: app.name, widget: "\(user)-\(kind.definition.name)-\(device)", user: user,
            device: "\(user)-d\(device)",
            kind: kind.definition.name, family: .systemSmall, configuration: configuration,
            environment: environment(number))
    }

    private static func crowdPlacement(of kind: ChaosKind, user: String, slot: Int) -> WidgetPlacement {
        WidgetPlacement(
            app: crowdApp, widget: "\(user)-\(slot)", user: user, device: "\(user)-d0", kind: kind.definition.name,
            family: .systemSmall,
            configuration: configuration([
                ("slot", .number(JSONNumber(slot))), ("group", .number(JSONNumber(slot % groups))),
            ]), environment: environment(0))
    }

    /// Devices of a stable user.
    static func environment(_ number: Int) -> WidgetEnvironment {
        WidgetEnvironment(storedLocale: number % 2 == 0 ? "en-GB" : "de-DE", timeZone: "Europe/London")
    }

    private static func kind(
        _ name: String, sharing: KindSharing = .perUser, variesBy: KindVariation = [],
        policy: ChaosKind.Policy = .never, modulus: Int? = nil, volatile: Bool = false, snapshots: Bool = false,
        maxBatch: Int = 20, timeout: Duration
    ) -> ChaosKind {
        ChaosKind(
            definition: KindDefinition(
                name: name, sharing: sharing, variesBy: variesBy, providerURL: "http://127.0.0.1:1/x",
                maxBatch: maxBatch, timeout: timeout, minimumSpacing: .seconds(1),
                dailyBudget: DailyBudget(minimum: 50_000, maximum: 50_000), placeholder: .object(JSONObject()),
                volatileFields: volatile ? ["/at"] : [], reloadTolerance: .zero, hasSnapshots: snapshots),
            policy: policy, modulus: modulus)
    }

    private static func app(
        _ name: String, developerMode: Bool, _ kinds: [ChaosKind], _ random: inout SeededRandom
    ) -> ChaosApp {
        ChaosApp(
            name: name, isInDeveloperMode: developerMode, kinds: kinds,
            secret: (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) })
    }

    private static func makeCrowdApp(_ random: inout SeededRandom, _ timeout: Duration) -> ChaosApp {
        app(crowdApp, developerMode: true, [kind("Crowd", maxBatch: 10, timeout: timeout)], &random)
    }

    private static func makeApps(_ random: inout SeededRandom, _ timeout: Duration) -> [ChaosApp] {
        return [
            app(
                "com.chaos.alpha", developerMode: true,
                [
                    kind("Balance", variesBy: [.family, .locale], snapshots: true, timeout: timeout),
                    kind("Flip", modulus: 2, volatile: true, timeout: timeout),
                    kind("Clock", policy: .after(seconds: 5), modulus: 3, timeout: timeout),
                ], &random),
            app(
                "com.chaos.beta", developerMode: false,
                [
                    kind("Parcel", variesBy: .all, timeout: timeout),
                    kind("City", sharing: .shared, timeout: timeout),
                ], &random),
            app(
                frontedApp, developerMode: true,
                [
                    kind("News", sharing: .shared, variesBy: .locale, modulus: 2, timeout: timeout),
                    kind("Task", variesBy: [.timeZone], policy: .atEnd(seconds: 4), timeout: timeout),
                ], &random),
        ]
    }

    /// Manifest for `freshet kinds apply`.
    ///
    /// - Parameter frontPort: Port of ``GoAwayFront``.
    func manifest(providerPort: Int, frontPort: Int) -> String {
        apps.map { app in
            let server =
                app.name == Self.frontedApp ? "https://localhost:\(frontPort)" : "http://127.0.0.1:\(providerPort)"
            var lines = [
                "app: \(app.name)", "developerMode: \(app.isInDeveloperMode)",
                "provider: {url: \"\(server)/\(app.path)\"}",
                "signingSecret: {environment: \(app.secretVariable)}", "kinds:",
            ]
            for kind in app.kinds {
                let definition = kind.definition
                lines += [
                    "  - name: \(definition.name)", "    displayName: \(definition.name)",
                    "    description: for the chaos suite", "    sharing: \(definition.sharing.name)",
                    "    variesBy: [\(definition.variesBy.names.joined(separator: ", "))]",
                    "    maxBatch: \(definition.maxBatch)",
                    "    timeout: \(definition.timeout.components.seconds)s", "    minimumSpacing: 1s",
                    "    budget: {minimum: 50000, maximum: 50000}", "    reloadTolerance: 0s",
                    "    snapshots: \(definition.hasSnapshots)",
                    "    volatileFields: [\(definition.volatileFields.joined(separator: ", "))]",
                    "    placeholder: {}",
                ]
            }
            return lines.joined(separator: "\n")
        }.joined(separator: "\n---\n") + "\n"
    }
}
