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
    /// The trace that it belongs to.
    package var trace: TraceParent?

    package init(
        record: Int, position: EventPosition, time: Timestamp?, event: FreshetEvent, trace: TraceParent? = nil
    ) {
        self.record = record
        self.position = position
        self.time = time
        self.event = event
        self.trace = trace
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
    /// Kinds of a reload of everyone; a nil kind: all of the app.
    private struct Scope: Hashable {
        let appID: Int32
        let kindID: Int32?
        var matching: WidgetConfiguration?
    }

    let directory: KindDirectory
    private var bumpsByScope: [Scope: GenerationBump] = [:]
    private var sweepsByScope: [Scope: MatchingSweep] = [:]
    private var userMarks = MarkTable(.user)
    private var deviceMarks = MarkTable(.device)
    private var widgetMarks = MarkTable(.widget)
    /// In the order in which they came.
    private(set) var views: [WidgetView] = []
    /// The latest view of each widget.
    private var latestViews: [ScopedIdentifier: Timestamp] = [:]
    /// Lifecycle events in log order.
    private(set) var lifecycle: [LifecycleStep] = []
    /// The sampled trace contexts of events that were accepted, in the order in which they came.
    private(set) var traces: [(position: EventPosition, traceparent: String)] = []
    package private(set) var rejected: [RejectedEvent] = []
    /// Events of diverted apps: they wait in the database, and nothing else is done with them.
    package private(set) var diverted: [RejectedEvent] = []
    /// How many events there are, whatever became of them.
    private(set) var eventCount: Int64 = 0
    /// Events that have an effect or are without one by rule; not the rejected ones.
    package private(set) var accepted = 0
    /// Whether an app or a kind was not found: the directory may be behind.
    package private(set) var hasUnknownNames = false

    private let divertedApps: Set<Int32>
    /// The names of apps that were met, and what the directory has by each.
    private var appNames = ByteTable()
    private var apps: [RegisteredApp?] = []
    private var appSlots: [AppSlot] = []
    /// The names of kinds that were met, tagged with their apps, and their ids; nil where there is none.
    private var kindNames = ByteTable()
    private var kindIDs: [Int32?] = []

    /// What the fold counts of an app by its name; the id is nil where the directory has none.
    private struct AppSlot: BitwiseCopyable {
        var id: Int32?
        var isDiverted: Bool
        var events: Int64
    }

    /// - Parameter divertedApps: apps whose events wait.
    package init(directory: KindDirectory, divertedApps: Set<Int32> = []) {
        self.directory = directory
        self.divertedApps = divertedApps
    }

    /// How many events of each registered app there are, whatever became of them.
    var events: [Int32: Int64] {
        var events: [Int32: Int64] = [:]
        for slot in appSlots where slot.events > 0 {
            if let id = slot.id { events[id, default: 0] += slot.events }
        }
        return events
    }

    /// The apps of the batch whose events are diverted.
    var divertedAppsOfBatch: [Int32] {
        divertedApps.isEmpty ? [] : appSlots.filter { $0.isDiverted && $0.events > 0 }.compactMap(\.id)
    }

    /// Whether it is reload requests and views, all of them accepted, and nothing else.
    var isPlain: Bool { lifecycle.isEmpty && rejected.isEmpty && diverted.isEmpty }

    /// Rows of SQL input that the targeted requests came down to.
    package var markCount: Int { userMarks.count + deviceMarks.count + widgetMarks.count }

    /// The targeted requests, folded, in the order of the log.
    var marks: [TimelineMark] {
        let tables = [userMarks, deviceMarks, widgetMarks].filter { !$0.isEmpty }
        let marks = tables.flatMap(\.values)
        return tables.count > 1 ? marks.sorted { $0.cause.precedes($1.cause) } : marks
    }

    /// The kinds of its targeted requests that are interactive or for a push.
    var urgentKinds: Set<Int32> {
        var kinds: Set<Int32> = []
        for table in [userMarks, deviceMarks, widgetMarks] {
            table.forEachScope { appID, kindID, lane in
                guard lane <= .push else { return }
                if let kindID {
                    kinds.insert(kindID)
                } else {
                    kinds.formUnion(directory.kinds.values.lazy.filter { $0.appID == appID && !$0.isRetired }.map(\.id))
                }
            }
        }
        return kinds
    }

    /// The reloads of everyone, folded, in the order of the log.
    var bumps: [GenerationBump] { bumpsByScope.values.sorted { $0.cause.precedes($1.cause) } }

    /// The reloads of everyone that match, folded, in the order of the log.
    var sweeps: [MatchingSweep] { sweepsByScope.values.sorted { $0.cause.precedes($1.cause) } }

    package mutating func reject(_ event: RejectedEvent) {
        eventCount += 1
        if let name = event.app { appSlots[slot(of: name)].events += 1 }
        rejected.append(event)
    }

    package mutating func add(_ event: BatchEvent) {
        eventCount += 1
        let slot = slot(of: event.event.app)
        appSlots[slot].events += 1
        if appSlots[slot].isDiverted, let app = apps[slot] {
            diverted.append(.diverted(event.record, app: app.name))
            return
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
            if let trace = event.trace, trace.isSampled { traces.append((event.position, trace.description)) }
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
        let kindIDs = try ids(of: request.kinds, app)
        if request.audience == .everyone {
            addForEveryone(request, app: app, kindIDs: kindIDs, at: position)
            return
        }
        let audience = request.audience.identifier ?? ""
        // One row of input a kind; all kinds are one row without a kind.
        for kindID in kindIDs.isEmpty ? [nil] : kindIDs.map(Optional.some) {
            switch request.audience {
            case .user:
                userMarks.add(
                    appID: app.id, kindID: kindID, audience: audience, matching: request.matching,
                    reason: request.reason, at: position)
            case .device:
                deviceMarks.add(
                    appID: app.id, kindID: kindID, audience: audience, matching: request.matching,
                    reason: request.reason, at: position)
            case .widget, .everyone:
                widgetMarks.add(
                    appID: app.id, kindID: kindID, audience: audience, matching: request.matching,
                    reason: request.reason, at: position)
            }
        }
    }

    private mutating func addForEveryone(
        _ request: ReloadRequest, app: RegisteredApp, kindIDs: [Int32], at position: EventPosition
    ) {
        for kindID in kindIDs.isEmpty ? [nil] : kindIDs.map(Optional.some) {
            let scope = Scope(appID: app.id, kindID: kindID, matching: request.matching)
            if let matching = request.matching {
                let earlier = sweepsByScope[scope]
                sweepsByScope[scope] = MatchingSweep(
                    appID: app.id, kindID: kindID, matching: matching.canonical, events: 1 + (earlier?.events ?? 0),
                    urgency: max(request.reason.urgency, earlier?.urgency ?? .budgeted), cause: position,
                    reason: request.reason)
            } else {
                let earlier = bumpsByScope[scope]
                bumpsByScope[scope] = GenerationBump(
                    appID: app.id, kindID: kindID, events: 1 + (earlier?.events ?? 0),
                    urgency: max(request.reason.urgency, earlier?.urgency ?? .budgeted), cause: position,
                    reason: request.reason)
            }
        }
    }
}

// MARK: - Reload requests that were left in their bytes

extension BatchFold {
    /// Adds a request; false, and nothing is changed, when it is for the caller to decode and add: when it is of an app or
    /// a kind that the directory does not have, of an app that is diverted, or for everyone.
    mutating func add(_ request: QuickRequest, in bytes: RawSpan, at position: EventPosition) -> Bool {
        let slot = slot(of: request.app.range, in: bytes)
        guard let appID = appSlots[slot].id, !appSlots[slot].isDiverted, request.sort != .everyone else { return false }
        switch request.kindCount {
        case 0:
            mark(request, appID, nil, in: bytes, at: position)
        case 1:
            var place: Int?
            guard let name = request.nextKind(after: &place, in: bytes),
                let kindID = kindID(of: name.range, in: bytes, appID: appID, slot: slot)
            else { return false }
            mark(request, appID, kindID, in: bytes, at: position)
        default:
            var ids: [Int32] = []
            var place: Int?
            while let name = request.nextKind(after: &place, in: bytes) {
                guard let kindID = kindID(of: name.range, in: bytes, appID: appID, slot: slot) else { return false }
                if !ids.contains(kindID) { ids.append(kindID) }
            }
            for id in ids { mark(request, appID, id, in: bytes, at: position) }
        }
        appSlots[slot].events += 1
        eventCount += 1
        accepted += 1
        return true
    }

    private mutating func mark(
        _ request: QuickRequest, _ appID: Int32, _ kindID: Int32?, in bytes: RawSpan, at position: EventPosition
    ) {
        let audience = request.audience.range
        switch request.sort {
        case .user:
            userMarks.add(
                appID: appID, kindID: kindID, audience: audience, in: bytes, reason: request.reason, at: position)
        case .device:
            deviceMarks.add(
                appID: appID, kindID: kindID, audience: audience, in: bytes, reason: request.reason, at: position)
        case .widget, .everyone:
            widgetMarks.add(
                appID: appID, kindID: kindID, audience: audience, in: bytes, reason: request.reason, at: position)
        }
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
        // A view that is no later than an earlier one of the widget never counts: that one counted, or came within the hour
        // after one that did. Whether a later one counts, the timeline's row must tell.
        let key = ScopedIdentifier(app.id, widget)
        if let latest = latestViews[key], time <= latest { return }
        latestViews[key] = time
        views.append(WidgetView(appID: app.id, widget: widget, time: time))
    }
}

// MARK: - Names

extension BatchFold {
    /// The registered app of exactly this name.
    func registeredApp(_ name: String) -> RegisteredApp? {
        guard let app = directory.apps[name], Text.equal(app.name, name) else { return nil }
        return app
    }

    private mutating func slot(of name: String) -> Int {
        let bytes = Array(name.utf8)
        return slot(of: 0..<bytes.count, in: bytes.span.bytes)
    }

    /// The slot of the app whose name lies in the bytes.
    private mutating func slot(of name: Range<Int>, in bytes: RawSpan) -> Int {
        let slot = appNames.number(of: name, in: bytes, tag: 0)
        if slot < appSlots.count { return slot }
        let app = registeredApp(String(decoding: appNames.key(slot), as: UTF8.self))
        apps.append(app)
        appSlots.append(
            AppSlot(id: app?.id, isDiverted: app.map { divertedApps.contains($0.id) } ?? false, events: 0))
        return slot
    }

    /// The id of the app's kind whose name lies in the bytes.
    private mutating func kindID(of name: Range<Int>, in bytes: RawSpan, appID: Int32, slot: Int) -> Int32? {
        let number = kindNames.number(of: name, in: bytes, tag: UInt64(UInt32(bitPattern: appID)))
        if number < kindIDs.count { return kindIDs[number] }
        let name = String(decoding: kindNames.key(number), as: UTF8.self)
        var id: Int32?
        if let app = apps[slot] { id = (try? kind(name, of: app, pointer: ""))?.id }
        kindIDs.append(id)
        return id
    }

    private mutating func app(_ name: String) throws(RejectedEvent.Reason) -> RegisteredApp {
        guard let app = apps[slot(of: name)] else {
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
    private func ids(of scope: KindScope, _ app: RegisteredApp) throws(RejectedEvent.Reason) -> [Int32] {
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
