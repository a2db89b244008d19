import Foundation
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
    let users: [String]
    /// People whose widgets come and go.
    let movers: [String]
    let widgets: [StableWidget]
    let timelines: [StableTimeline]
    /// Indices of timelines by app and user, app and device, and app and widget.
    let ofUser: [String: [Int]]
    let ofDevice: [String: [Int]]
    let ofWidget: [String: Int]
    private let versions = Mutex<[Source: Int]>([:])

    static func key(_ app: String, _ id: String) -> String { "\(app) \(id)" }

    init(seed: UInt64, users userCount: Int, movers moverCount: Int) {
        var random = SeededRandom(seed: seed, stream: "world")
        apps = Self.makeApps(&random)
        users = (0..<userCount).map { "u\($0)" }
        movers = (0..<moverCount).map { "m\($0)" }
        var widgets: [StableWidget] = []
        var timelines: [StableTimeline] = []
        var indices: [TimelineID: Int] = [:]
        var ofUser: [String: [Int]] = [:]
        var ofDevice: [String: [Int]] = [:]
        var ofWidget: [String: Int] = [:]
        for app in apps {
            for (number, user) in users.enumerated() {
                for kind in app.kinds {
                    for device in 0..<2 {
                        let placement = Self.placement(of: kind, in: app, user: user, number: number, device: device)
                        let identity = kind.definition.identity(of: placement)
                        let id = identity.id
                        let index = indices[id] ?? timelines.count
                        if indices[id] == nil {
                            indices[id] = index
                            timelines.append(
                                StableTimeline(id: id, identity: identity, group: Self.group(of: identity)))
                        }
                        widgets.append(StableWidget(placement: placement, timeline: index))
                        ofUser[Self.key(app.name, user), default: []].append(index)
                        ofDevice[Self.key(app.name, placement.device), default: []].append(index)
                        ofWidget[Self.key(app.name, placement.widget)] = index
                    }
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
        let object = JSONObject(members.map { JSONObject.Member(key: $0.0, value: $0.1) })
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

    /// Devices of a stable user.
    static func environment(_ number: Int) -> WidgetEnvironment {
        WidgetEnvironment(storedLocale: number % 2 == 0 ? "en-GB" : "de-DE", timeZone: "Europe/London")
    }

    private static func makeApps(_ random: inout SeededRandom) -> [ChaosApp] {
        func kind(
            _ name: String, sharing: KindSharing = .perUser, variesBy: KindVariation = [],
            policy: ChaosKind.Policy = .never, modulus: Int? = nil, volatile: Bool = false, snapshots: Bool = false
        ) -> ChaosKind {
            ChaosKind(
                definition: KindDefinition(
                    name: name, sharing: sharing, variesBy: variesBy, providerURL: "http://127.0.0.1:1/x",
                    maxBatch: 20, timeout: .seconds(2), minimumSpacing: .seconds(1),
                    dailyBudget: DailyBudget(minimum: 50_000, maximum: 50_000), placeholder: .object(JSONObject()),
                    volatileFields: volatile ? ["/at"] : [], reloadTolerance: .zero, hasSnapshots: snapshots),
                policy: policy, modulus: modulus)
        }
        func app(_ name: String, developerMode: Bool, _ kinds: [ChaosKind]) -> ChaosApp {
            ChaosApp(
                name: "com.chaos.\(name)", isInDeveloperMode: developerMode, kinds: kinds,
                secret: (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) })
        }
        return [
            app(
                "alpha", developerMode: true,
                [
                    kind("Balance", variesBy: [.family, .locale], snapshots: true),
                    kind("Flip", modulus: 2, volatile: true),
                    kind("Clock", policy: .after(seconds: 5), modulus: 3),
                ]),
            app(
                "beta", developerMode: false,
                [
                    kind("Parcel", variesBy: .all), kind("City", sharing: .shared),
                ]),
            app(
                "gamma", developerMode: true,
                [
                    kind("News", sharing: .shared, variesBy: .locale, modulus: 2),
                    kind("Task", variesBy: [.timeZone], policy: .atEnd(seconds: 4)),
                ]),
        ]
    }

    /// Manifest for `freshet kinds apply`.
    func manifest(providerPort: Int) -> String {
        apps.map { app in
            var lines = [
                "app: \(app.name)", "developerMode: \(app.isInDeveloperMode)",
                "provider: {url: \"http://127.0.0.1:\(providerPort)/\(app.path)\"}",
                "signingSecret: {environment: \(app.secretVariable)}", "kinds:",
            ]
            for kind in app.kinds {
                let definition = kind.definition
                lines += [
                    "  - name: \(definition.name)", "    displayName: \(definition.name)",
                    "    description: for the chaos suite", "    sharing: \(definition.sharing.name)",
                    "    variesBy: [\(definition.variesBy.names.joined(separator: ", "))]",
                    "    maxBatch: \(definition.maxBatch)", "    timeout: 2s", "    minimumSpacing: 1s",
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
