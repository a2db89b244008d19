import WidgetEvents
import WidgetModel
import WidgetStore

/// Folds a polled batch in memory: many events for one target become one row of SQL input (design, section 4). Pure.
struct BatchFold: Sendable {
    /// Target of a reload of everyone; nil for all kinds of the app.
    private struct Scope: Hashable {
        let appID: Int32
        let kindID: Int32?
        var matching: WidgetConfiguration?
    }

    let directory: KindDirectory
    private var reloadsOfEveryone: [Scope: EveryoneReload] = [:]
    private var userMarks = MarkTable(.user)
    private var deviceMarks = MarkTable(.device)
    private var widgetMarks = MarkTable(.widget)
    /// Views in log order.
    private(set) var views: [WidgetView] = []
    /// The latest view of each widget.
    private var latestViews: [ScopedIdentifier: Timestamp] = [:]
    /// Lifecycle events in log order.
    private(set) var lifecycle: [LifecycleStep] = []
    /// Sampled trace contexts of accepted events, in log order.
    private(set) var traces: [(position: EventPosition, traceparent: String)] = []
    private(set) var rejected: [RejectedEvent] = []
    /// Events of diverted apps, which are only kept in the database.
    private(set) var diverted: [RejectedEvent] = []
    /// Records of events whose outcome is kept, whatever it is.
    private(set) var kept: [Int] = []
    /// Number of events of any outcome.
    private(set) var eventCount: Int64 = 0
    /// Number of events that were not rejected.
    private(set) var accepted = 0
    /// Whether an app or kind was not found, so that the directory may be behind.
    private(set) var hasUnknownNames = false

    private let divertedApps: Set<Int32>
    /// Names of the batch's apps, with their entries in the directory.
    private var appNames = ByteTable()
    private var apps: [RegisteredApp?] = []
    private var appSlots: [AppSlot] = []
    /// Names of the batch's kinds, tagged with their apps, with their ids; nil for unknown kinds.
    private var kindNames = ByteTable()
    private var kindIDs: [Int32?] = []

    /// State of an app by its name; the id is nil for an unknown app.
    private struct AppSlot: BitwiseCopyable {
        var id: Int32?
        var isDiverted: Bool
        var events: Int64
    }

    /// - Parameter divertedApps: apps whose events are diverted.
    init(directory: KindDirectory, divertedApps: Set<Int32> = []) {
        self.directory = directory
        self.divertedApps = divertedApps
    }

    /// Numbers of events of any outcome by registered app.
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

    /// Whether the fold diverts the app's events.
    func isDiverted(_ appID: Int32) -> Bool { divertedApps.contains(appID) }

    /// Whether the batch has only accepted reload requests and views: no other lifecycle events and no dead letters.
    var isPlain: Bool { lifecycle.isEmpty && rejected.isEmpty && diverted.isEmpty }

    /// Number of rows of SQL input for targeted requests.
    var markCount: Int { userMarks.count + deviceMarks.count + widgetMarks.count }

    /// The targeted requests, folded, in the order of the log.
    var marks: [TimelineMark] {
        let tables = [userMarks, deviceMarks, widgetMarks].filter { !$0.isEmpty }
        let marks = tables.flatMap(\.values)
        return tables.count > 1 ? marks.sorted { $0.cause.precedes($1.cause) } : marks
    }

    /// Kinds of the targeted requests in the interactive and push lanes.
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
    var bumps: [EveryoneReload] { ofEveryone { $0.matching == nil } }

    /// The reloads of everyone that match, folded, in the order of the log.
    var sweeps: [EveryoneReload] { ofEveryone { $0.matching != nil } }

    mutating func reject(_ event: RejectedEvent) {
        eventCount += 1
        if let name = event.app { appSlots[slot(of: name)].events += 1 }
        if event.keepsOutcome { kept.append(event.record) }
        rejected.append(event)
    }

    mutating func add(_ event: BatchEvent) {
        eventCount += 1
        let slot = slot(of: event.event.app)
        appSlots[slot].events += 1
        if event.handling.keepsOutcome { kept.append(event.record) }
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
                try addLifecycle(app, event) { time in .widget(widget, .removed(widget, at: time)) }
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
        // One row of input per kind, or one without a kind for all kinds.
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
            let earlier = reloadsOfEveryone[scope]
            reloadsOfEveryone[scope] = EveryoneReload(
                appID: app.id, kindID: kindID, matching: request.matching?.canonical,
                events: 1 + (earlier?.events ?? 0),
                urgency: max(request.reason.urgency, earlier?.urgency ?? .budgeted), cause: position,
                reason: request.reason)
        }
    }

    private func ofEveryone(_ isIncluded: (EveryoneReload) -> Bool) -> [EveryoneReload] {
        reloadsOfEveryone.values.filter(isIncluded).sorted { $0.cause.precedes($1.cause) }
    }
}

// MARK: - Reload requests in their bytes

extension BatchFold {
    /// Adds a request. Returns false and changes nothing if the caller must decode it: if its app or a kind is unknown, its
    /// app is diverted, or it is for everyone.
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
            LifecycleStep(
                record: event.record, position: event.position, app: app, operation: operation(time),
                handling: event.handling))
    }

    private mutating func addView(
        _ appName: String, _ widget: String, _ event: BatchEvent
    ) throws(RejectedEvent.Reason) {
        let app = try app(appName)
        guard let time = event.time else { throw .missingTime(app: appName) }
        if event.handling.user != nil || event.handling.keepsOutcome {
            // Whether it counts depends on the widget.
            return try addLifecycle(appName, event) { time in .view(widget, at: time) }
        }
        // A view that is not later than another of the widget never counts. Whether a later one counts depends on the
        // timeline's row.
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

    /// Ids of the kinds in scope; empty for all kinds of the app.
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
