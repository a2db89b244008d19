package import WidgetEvents
package import WidgetModel
package import WidgetStore

/// A message of the batch that could be decoded.
package struct BatchEvent: Sendable {
    /// Its index in the polled batch.
    package var record: Int
    package var position: EventPosition
    /// When it happened, for lifecycle and views.
    package var time: Timestamp?
    package var event: FreshetEvent

    package init(record: Int, position: EventPosition, time: Timestamp?, event: FreshetEvent) {
        self.record = record
        self.position = position
        self.time = time
        self.event = event
    }
}

/// A message of the batch that becomes a dead letter.
package struct RejectedEvent: Hashable, Sendable {
    /// Its index in the polled batch.
    package var record: Int
    package var app: String?
    /// Name of the error's class.
    package var code: String
    package var message: String
    /// JSON pointer to what is wrong.
    package var pointer: String?

    package init(record: Int, app: String?, code: String, message: String, pointer: String? = nil) {
        self.record = record
        self.app = app
        self.code = code
        self.message = message
        self.pointer = pointer
    }
}

/// Folds a polled batch in memory: many events for one target become one row of SQL input (design, section 4). Pure.
package struct BatchFold: Sendable {
    /// What makes two targeted requests one row of input.
    struct MarkKey: Hashable {
        let audience: ScopedIdentifier
        let kindID: Int32?
        let matching: WidgetConfiguration?
    }

    struct SweepKey: Hashable {
        let appID: Int32
        let kindIDs: [Int32]
        let matching: WidgetConfiguration
    }

    let directory: KindDirectory
    /// Generation bumps by app and by kind.
    private(set) var appBumps: [Int32: GenerationBump] = [:]
    private(set) var kindBumps: [Int32: GenerationBump] = [:]
    private(set) var userMarks: [MarkKey: TimelineMark] = [:]
    private(set) var deviceMarks: [MarkKey: TimelineMark] = [:]
    private(set) var widgetMarks: [MarkKey: TimelineMark] = [:]
    private(set) var sweeps: [SweepKey: SweepRequest] = [:]
    private(set) var views: [ScopedIdentifier: WidgetViews] = [:]
    /// Lifecycle events in log order.
    private(set) var lifecycle: [LifecycleStep] = []
    package private(set) var rejected: [RejectedEvent] = []
    /// Events of diverted apps: they wait in the database, and nothing else is done with them.
    package private(set) var diverted: [RejectedEvent] = []
    /// How many events of each registered app there are, whatever became of them; and of all.
    private(set) var events: [Int32: Int64] = [:]
    private(set) var eventCount: Int64 = 0
    /// Events that have an effect or are without one by rule; not the rejected ones.
    package private(set) var accepted = 0
    /// Whether an app or a kind was not found: the directory may be behind.
    package private(set) var hasUnknownNames = false

    private let divertedApps: Set<Int32>
    /// The app of the event before: events often come in runs of one app.
    private var latest: RegisteredApp?

    /// - Parameter divertedApps: apps whose events wait.
    package init(directory: KindDirectory, divertedApps: Set<Int32> = []) {
        self.directory = directory
        self.divertedApps = divertedApps
    }

    /// The apps of the batch whose events are diverted.
    var divertedAppsOfBatch: [Int32] { divertedApps.filter { events[$0] != nil } }

    /// Rows of SQL input that the targeted requests came down to.
    package var markCount: Int { userMarks.count + deviceMarks.count + widgetMarks.count }

    /// The apps that targeted requests and lifecycle events are of.
    var targetedApps: Set<Int32> {
        var apps = Set(lifecycle.lazy.map(\.app.id))
        for marks in [userMarks, deviceMarks, widgetMarks] { apps.formUnion(marks.values.lazy.map(\.appID)) }
        return apps
    }

    package mutating func reject(_ event: RejectedEvent) {
        eventCount += 1
        if let name = event.app, let app = registered(name) { events[app.id, default: 0] += 1 }
        rejected.append(event)
    }

    package mutating func add(_ event: BatchEvent) {
        eventCount += 1
        if let app = registered(event.event.app) {
            events[app.id, default: 0] += 1
            if !divertedApps.isEmpty, divertedApps.contains(app.id) {
                diverted.append(.diverted(event.record, app: app.name))
                return
            }
        }
        do throws(RejectedEvent.Reason) {
            switch event.event {
            case .push(let request), .appChange(let request), .operatorReload(let request):
                try add(request, at: event.position)
            case .placed(let placement):
                try addPlacement(placement, event)
            case .configured(let app, let widget, let configuration):
                try addLifecycle(app, event) { time in
                    .widget(widget, .configured(configuration, at: time))
                }
            case .removed(let app, let widget):
                try addLifecycle(app, event) { time in .widget(widget, .removed(at: time)) }
            case .viewed(let app, let widget):
                try addView(app, widget, event)
            case .environmentChanged(let app, let device, let environment, let isSignificant):
                try addLifecycle(app, event) { time in .device(device, environment, at: time) }
                if isSignificant {
                    let request = ReloadRequest(app: app, audience: .device(device), kinds: .all, reason: .environment)
                    try add(request, at: event.position)
                }
            }
            accepted += 1
        } catch {
            if error.isUnknownName { hasUnknownNames = true }
            rejected.append(
                RejectedEvent(
                    record: event.record, app: error.app, code: error.code, message: error.message,
                    pointer: error.pointer))
        }
    }
}

// MARK: - Reload requests

extension BatchFold {
    private mutating func add(_ request: ReloadRequest, at position: EventPosition) throws(RejectedEvent.Reason) {
        let app = try app(request.app)
        let kindIDs = try kindIDs(request.kinds, of: app)
        if request.audience == .everyone {
            addForEveryone(request, app: app, kindIDs: kindIDs, at: position)
            return
        }
        // One row of input a kind; all kinds are one row without a kind.
        for kindID in kindIDs.isEmpty ? [nil] : kindIDs.map(Optional.some) {
            var mark = TimelineMark(
                appID: app.id, audienceID: request.audience.identifier ?? "", kindID: kindID,
                matching: request.matching?.canonical, events: 1, urgency: request.reason.urgency,
                lane: request.reason.lane.rawValue, cause: position, reason: request.reason)
            let key = MarkKey(
                audience: ScopedIdentifier(app.id, mark.audienceID), kindID: kindID, matching: request.matching)
            switch request.audience {
            case .user: Self.fold(&mark, into: &userMarks[key])
            case .device: Self.fold(&mark, into: &deviceMarks[key])
            case .widget, .everyone: Self.fold(&mark, into: &widgetMarks[key])
            }
        }
    }

    private static func fold(_ mark: inout TimelineMark, into slot: inout TimelineMark?) {
        if let earlier = slot {
            mark.events += earlier.events
            mark.urgency = max(mark.urgency, earlier.urgency)
            mark.lane = min(mark.lane, earlier.lane)
        }
        slot = mark
    }

    private mutating func addForEveryone(
        _ request: ReloadRequest, app: RegisteredApp, kindIDs: [Int32], at position: EventPosition
    ) {
        if let matching = request.matching {
            let key = SweepKey(appID: app.id, kindIDs: kindIDs, matching: matching)
            var sweep = SweepRequest(
                appID: app.id, audience: .everyone, kindIDs: kindIDs, matching: matching.canonical, events: 1,
                urgency: request.reason.urgency, cause: position, reason: request.reason)
            if let earlier = sweeps[key] {
                sweep.events += earlier.events
                sweep.urgency = max(sweep.urgency, earlier.urgency)
            }
            sweeps[key] = sweep
        } else if kindIDs.isEmpty {
            Self.bump(app.id, request.reason, at: position, in: &appBumps)
        } else {
            for id in kindIDs { Self.bump(id, request.reason, at: position, in: &kindBumps) }
        }
    }

    private static func bump(
        _ id: Int32, _ reason: ReloadReason, at position: EventPosition, in bumps: inout [Int32: GenerationBump]
    ) {
        var bump = GenerationBump(id: id, events: 1, urgency: reason.urgency, cause: position, reason: reason)
        if let earlier = bumps[id] {
            bump.events += earlier.events
            bump.urgency = max(bump.urgency, earlier.urgency)
        }
        bumps[id] = bump
    }
}

// MARK: - Widgets

extension BatchFold {
    private mutating func addPlacement(
        _ placement: WidgetPlacement, _ event: BatchEvent
    ) throws(RejectedEvent.Reason) {
        let app = try app(placement.app)
        let kind = try kind(placement.kind, of: app, pointer: "/kind")
        guard kind.definition.families.contains(placement.family) else {
            let supported = kind.definition.families.map(\.name).joined(separator: ", ")
            throw RejectedEvent.Reason(
                app: app.name, code: "invalidValue",
                message: "/family: kind \(Text.quoted(placement.kind)) does not support \(placement.family.name); "
                    + "expected one of \(supported)", pointer: "/family")
        }
        try addLifecycle(placement.app, event) { time in .widget(placement.widget, .placed(placement, at: time)) }
    }

    private mutating func addLifecycle(
        _ appName: String, _ event: BatchEvent, _ operation: (Timestamp) -> LifecycleStep.Operation
    ) throws(RejectedEvent.Reason) {
        let app = try app(appName)
        guard let time = event.time else { throw .missingTime(app: appName) }
        lifecycle.append(
            LifecycleStep(record: event.record, position: event.position, app: app, operation: operation(time)))
    }

    private mutating func addView(
        _ appName: String, _ widget: String, _ event: BatchEvent
    ) throws(RejectedEvent.Reason) {
        let app = try app(appName)
        guard let time = event.time else { throw .missingTime(app: appName) }
        let key = ScopedIdentifier(app.id, widget)
        views[key, default: WidgetViews(appID: app.id, widget: widget, times: [])].times.append(time)
    }
}

// MARK: - Names

extension BatchFold {
    /// The registered app of exactly this name.
    func registeredApp(_ name: String) -> RegisteredApp? {
        guard let app = directory.apps[name], Text.equal(app.name, name) else { return nil }
        return app
    }

    private mutating func registered(_ name: String) -> RegisteredApp? {
        if let latest, Text.equal(latest.name, name) { return latest }
        guard let app = registeredApp(name) else { return nil }
        latest = app
        return app
    }

    private mutating func app(_ name: String) throws(RejectedEvent.Reason) -> RegisteredApp {
        guard let app = registered(name) else {
            throw RejectedEvent.Reason(
                app: name, code: "unknownApp",
                message:
                    "/app: no app \(Text.quoted(name)) is registered; expected one that `freshet kinds apply` knows",
                pointer: "/app", isUnknownName: true)
        }
        return app
    }

    private func kind(
        _ name: String, of app: RegisteredApp, pointer: String
    ) throws(RejectedEvent.Reason) -> RegisteredKind {
        guard let kind = directory.kind(name, of: app), Text.equal(kind.definition.name, name) else {
            throw RejectedEvent.Reason(
                app: app.name, code: "unknownKind",
                message: "\(pointer): app \(Text.quoted(app.name)) has no kind \(Text.quoted(name))",
                pointer: pointer, isUnknownName: true)
        }
        return kind
    }

    /// The ids of the kinds in scope; empty: all of the app.
    private func kindIDs(_ scope: KindScope, of app: RegisteredApp) throws(RejectedEvent.Reason) -> [Int32] {
        guard case .kinds(let names) = scope else { return [] }
        var ids: [Int32] = []
        ids.reserveCapacity(names.count)
        for name in names {
            ids.append(try kind(name, of: app, pointer: "/kinds").id)
        }
        return ids
    }
}

extension RejectedEvent {
    /// An event that waits because its app is diverted.
    static func diverted(_ record: Int, app: String) -> RejectedEvent {
        RejectedEvent(
            record: record, app: app, code: DeadLetterCause.diverted.rawValue,
            message: "the app is diverted: its events wait until `freshet dead-letters resume --app \(app)`")
    }

    /// Why a well-formed event cannot be applied.
    struct Reason: Error {
        var app: String
        var code: String
        var message: String
        var pointer: String?
        var isUnknownName = false

        static func missingTime(app: String) -> Reason {
            Reason(
                app: app, code: "missingAttribute",
                message: "neither the attribute time nor the Kafka message's timestamp is set; expected one of them")
        }
    }
}
