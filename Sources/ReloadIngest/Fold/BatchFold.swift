// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetEvents
import WidgetModel
import WidgetStore

/// An event that changes stored rows, with its registered app.
struct FoldedChange: Sendable {
    /// Index in the polled batch.
    let record: Int
    let position: EventPosition
    let app: RegisteredApp
    let time: Timestamp
    /// The user whom the event names.
    let user: String?
    let change: FreshetEvent.Change
    let handling: EventHandling
    /// A placement with the values of its kind; nil for other events.
    var resolved: ResolvedPlacement?
    /// Content that an interaction views; nil for other events.
    var content: ViewedContent?
}

/// Content that a person has viewed: a donation, or the widget that a stack was turned to.
struct ViewedContent: Sendable {
    /// Combinations that the view counts for.
    let combinations: [HabitContent]
    /// Nil: that of the person's widgets.
    let timeZone: String?
}

/// Folds a polled batch in memory, so that many events for one target become one row of SQL input.
/// Pure.
struct BatchFold: Sendable {
    /// Timelines of a reload of everyone.
    private struct Everyone: Hashable {
        let appID: Int32
        /// Nil for all kinds of the app.
        let kindID: Int32?
        let matching: WidgetConfiguration?
    }

    /// Ids of an app and kinds that requests refer to by the indices of their names.
    private struct KnownKinds {
        let app: Int
        let kinds: Int
        let appID: Int32
        /// Nil for all kinds of the app.
        let kindIDs: [Int32?]
    }

    let directory: KindDirectory
    private let divertedApps: Set<Int32>
    private let fullApps: Set<Int32>
    private var reloadsOfEveryone: [Everyone: EveryoneReload] = [:]
    /// The folded targeted requests.
    private var targeted = MarkTable()
    /// Views in log order.
    private(set) var views: [WidgetView] = []
    /// The latest view of each widget.
    private var latestViews: [ScopedIdentifier: Timestamp] = [:]
    /// Events that change rows of widgets, people and devices, in log order.
    private(set) var changes: [FoldedChange] = []
    /// Dynamic defaults that complete the configuration of a new widget. They come from its provider, not from an
    /// event.
    var defaults: (widget: UndecidedWidget, values: WidgetConfiguration)?
    /// Sampled trace contexts of accepted events, in log order.
    private(set) var traces: [(position: EventPosition, traceparent: String)] = []
    private(set) var rejected: [RejectedEvent] = []
    /// Events of diverted apps. They are kept in the database and not applied.
    private(set) var diverted: [RejectedEvent] = []
    /// Events of diverted apps, or of no registered app, that are no longer kept.
    private(set) var dropped: [RejectedEvent] = []
    /// Records of events whose outcome is kept, whether applied or not.
    private(set) var kept: [Int] = []
    /// Number of events, whatever their outcome.
    private(set) var eventCount: Int64 = 0
    /// Numbers of events by registered app, without the latest ones of one app.
    private var counted: [Int32: Int64] = [:]
    private var latest: (appID: Int32, events: Int64) = (0, 0)
    /// Number of events that were not rejected.
    private(set) var accepted = 0
    /// The app of the latest event whose app was looked up.
    private var latestApp: RegisteredApp?
    /// The first kinds of requests: a batch has few.
    private var knownKinds: [KnownKinds] = []
    /// Apps and kinds that were not found, by their bytes: the directory may be outdated.
    private var unknown: [[UInt8]: DirectoryName] = [:]

    /// - Parameters:
    ///   - divertedApps: apps whose events are diverted.
    ///   - fullApps: diverted apps whose further events on shared topics are dropped.
    init(directory: KindDirectory, divertedApps: Set<Int32> = [], fullApps: Set<Int32> = []) {
        self.directory = directory
        self.divertedApps = divertedApps
        self.fullApps = fullApps
    }

    /// Makes room for the targets of this many events.
    mutating func reserve(_ events: Int) {
        targeted.reserve(events)
    }

    /// Numbers of events by registered app, whatever their outcome.
    var events: [Int32: Int64] {
        var events = counted
        if latest.events > 0 { events[latest.appID, default: 0] += latest.events }
        return events
    }

    private mutating func countEvent(of appID: Int32) {
        if latest.appID != appID {
            if latest.events > 0 { counted[latest.appID, default: 0] += latest.events }
            latest = (appID, 0)
        }
        latest.events += 1
    }

    /// The apps and kinds that were not found.
    var unknownNames: [DirectoryName] { Array(unknown.values) }

    /// The apps of the batch whose events are diverted.
    var divertedAppsOfBatch: [Int32] {
        guard !divertedApps.isEmpty else { return [] }
        let events = events
        return divertedApps.filter { events[$0] != nil }
    }

    /// Whether the fold diverts the app's events.
    func isDiverted(_ appID: Int32) -> Bool { divertedApps.contains(appID) }

    /// Whether the batch has only accepted reload requests and views: no events that need stored rows, and no dead
    /// letters.
    var isPlain: Bool {
        changes.isEmpty && defaults == nil && rejected.isEmpty && diverted.isEmpty
    }

    /// Whether the changes to existing timelines are marks of users that match any configuration.
    var isOfUsers: Bool { views.isEmpty && targeted.marks.allSatisfy(\.isOfUser) }

    /// Number of rows of SQL input for targeted requests.
    var markCount: Int { targeted.marks.count }

    /// The folded targeted requests in log order, since a timeline's row keeps the last cause.
    var marks: [TimelineMark] {
        let marks = targeted.marks
        let areInOrder = marks.indices.dropFirst().allSatisfy { marks[$0 - 1].cause.precedes(marks[$0].cause) }
        if areInOrder { return marks }
        // Sorted by their places, since a mark is large.
        let order = marks.indices.sorted { marks[$0].cause.precedes(marks[$1].cause) }
        return order.map { marks[$0] }
    }

    /// Kinds of the targeted requests in the interactive and push lanes.
    var urgentKinds: Set<Int32> {
        var kinds: Set<Int32> = []
        var apps: Set<Int32> = []
        for mark in targeted.marks where mark.lane <= .push {
            if let kindID = mark.kindID { kinds.insert(kindID) } else { apps.insert(mark.appID) }
        }
        guard !apps.isEmpty else { return kinds }
        return kinds.union(directory.kinds.values.lazy.filter { apps.contains($0.appID) && !$0.isRetired }.map(\.id))
    }

    /// The folded reloads of everyone that match any configuration, in log order.
    var bumps: [EveryoneReload] { ofEveryone { $0.matching == nil } }

    /// The folded reloads of everyone that match certain configurations, in log order.
    var sweeps: [EveryoneReload] { ofEveryone { $0.matching != nil } }

    /// - Parameters:
    ///   - isTopicShared: whether several apps may use the topic. A topic of a single app is halted instead of dropping
    ///     its events.
    ///   - isTopicFull: whether the topic's events of no registered app are no longer kept.
    mutating func reject(_ event: RejectedEvent, isTopicShared: Bool = true, isTopicFull: Bool = false) {
        eventCount += 1
        let app = event.app.flatMap(registeredApp)
        if let app { countEvent(of: app.id) }
        if event.keepsOutcome { kept.append(event.record) }
        // An event that the topic may not carry belongs to another app.
        if let app, event.code != DeadLetterCause.notAllowed.rawValue, isTopicShared, fullApps.contains(app.id) {
            dropped.append(.dropped(event.record, app: app.name))
        } else if isTopicFull, app == nil || event.code == DeadLetterCause.notAllowed.rawValue {
            dropped.append(.droppedWithoutApp(event.record, app: event.app))
        } else {
            rejected.append(event)
        }
    }

    /// Adds a request without options whose app and kinds are registered.
    ///
    /// - Parameters:
    ///   - names: names that the request refers to; the same for all requests of the batch.
    ///   - bytes: bytes that the request refers to.
    /// - Returns: false if a name is not registered or the app is diverted. The request must then be added as event.
    mutating func add(
        _ reload: CompactReload, _ names: RecurringNames, in bytes: [UInt8], at position: EventPosition
    ) -> Bool {
        guard let known = known(reload, names) else { return false }
        eventCount += 1
        countEvent(of: known.appID)
        for kindID in known.kindIDs {
            mark(
                TimelineMark.Audience(reload.audience), id: reload.id, in: bytes, appID: known.appID, kindID: kindID,
                reload.reason, at: position)
        }
        accepted += 1
        return true
    }

    /// The parameters are those of ``reject(_:isTopicShared:isTopicFull:)``.
    mutating func add(_ event: BatchEvent, isTopicShared: Bool = true, isTopicFull: Bool = false) {
        eventCount += 1
        if event.handling.keepsOutcome { kept.append(event.record) }
        let app = registeredApp(event.event.app)
        latestApp = app
        if let app {
            countEvent(of: app.id)
            if divertedApps.contains(app.id) {
                if isTopicShared, fullApps.contains(app.id) {
                    dropped.append(.dropped(event.record, app: app.name))
                } else {
                    diverted.append(.diverted(event.record, app: app.name))
                }
                return
            }
        }
        do throws(RejectedEvent) {
            guard let app else { throw .unknownApp(event.record, event.event.app) }
            try fold(event, of: app)
            accepted += 1
            if let trace = event.trace, trace.isSampled { traces.append((event.position, trace.description)) }
        } catch {
            if let name = error.unknownName { unknown[name.bytes] = name }
            if isTopicFull, error.code == DeadLetterCause.unknownApp.rawValue {
                return dropped.append(.droppedWithoutApp(event.record, app: error.app))
            }
            var error = error
            error.unknownName = nil
            rejected.append(error)
        }
    }
}

extension BatchFold {
    private mutating func fold(_ event: BatchEvent, of app: RegisteredApp) throws(RejectedEvent) {
        switch event.event.change {
        case .reload(let request): try add(request, of: app, in: event)
        case .view(let widget): try addView(of: widget, app, event)
        case .widget(.placed(let placement)):
            let kind = try kind(placement.kind, of: app, pointer: "/kind", in: event)
            let resolved = kind.definition.resolve(placement)
            // The configuration is checked beside that of the stored widget.
            try Self.require(noProblems: kind.definition.problems(withPlaceOf: placement), of: app, in: event)
            try addChange(app, event, resolved: resolved)
        case .widget, .person(.stack), .person(.turned), .device(.registered), .device(.unregistered):
            try addChange(app, event)
        case .device(.environment(let device, let environment, let isSignificant)):
            // A single unusable value is left out, and the other one applies.
            if environment.problems.count == 2, let problem = environment.problems.first {
                throw .invalidEnvironment(event.record, app: app.name, problem)
            }
            try addChange(app, event)
            guard isSignificant else { return }
            let request = ReloadRequest(app: app.name, audience: .device(device), kinds: .all, reason: .environment)
            try add(request, of: app, in: event)
        case .person(.shortcuts(_, let shortcuts)):
            for (index, shortcut) in shortcuts.enumerated() {
                let (content, pointer) = (shortcut.content, "/shortcuts/\(index)")
                let kind = try kind(content.kind, of: app, pointer: "\(pointer)/kind", in: event).definition
                try Self.require(
                    noProblems: kind.problems(withShortcut: content.configuration).map { $0.moved(below: pointer) },
                    of: app, in: event)
            }
            try addChange(app, event)
        case .interaction(let interaction):
            let kind = try kind(interaction.kind, of: app, pointer: "/kind", in: event).definition
            let configuration = interaction.configuration
            try Self.require(
                noProblems: kind.problems(withValues: configuration), of: app, in: event)
            let content = ViewedContent(
                combinations: kind.combinations(in: configuration), timeZone: interaction.timeZone)
            try addChange(app, event, content: content)
        }
    }

    private static func require(
        noProblems problems: [ModelError], of app: RegisteredApp, in event: BatchEvent
    ) throws(RejectedEvent) {
        guard let problem = problems.first else { return }
        throw RejectedEvent(
            record: event.record, app: app.name, code: "invalidValue", message: "\(problem)", pointer: problem.pointer)
    }

    private mutating func addChange(
        _ app: RegisteredApp, _ event: BatchEvent, resolved: ResolvedPlacement? = nil, content: ViewedContent? = nil
    ) throws(RejectedEvent) {
        guard let time = event.time else { throw .missingTime(event.record, app: app.name) }
        changes.append(
            FoldedChange(
                record: event.record, position: event.position, app: app, time: time, user: event.event.user,
                change: event.event.change, handling: event.handling, resolved: resolved, content: content))
    }

    private mutating func addView(
        of widget: String, _ app: RegisteredApp, _ event: BatchEvent
    ) throws(RejectedEvent) {
        // The widget decides whether the view counts.
        if event.handling.user != nil || event.handling.keepsOutcome { return try addChange(app, event) }
        guard let time = event.time else { throw .missingTime(event.record, app: app.name) }
        // A view that is not later than another view of the same widget never counts. The timeline's row decides
        // whether a later one counts.
        let key = ScopedIdentifier(app.id, widget)
        if let latest = latestViews[key], time <= latest { return }
        latestViews[key] = time
        views.append((appID: app.id, widget: widget, time: time))
    }
}

// MARK: - Reload requests

extension BatchFold {
    private mutating func add(
        _ request: ReloadRequest, of app: RegisteredApp, in event: BatchEvent
    ) throws(RejectedEvent) {
        // One row of input per kind, or one without a kind for all kinds.
        var kindIDs: [Int32?] = [nil]
        if case .kinds(let names) = request.kinds {
            kindIDs = []
            for name in names {
                if let id = kindID(name, of: app) {
                    kindIDs.append(id)
                } else {
                    kindIDs.append(try kind(name, of: app, pointer: "/kinds", in: event).id)
                }
            }
        }
        let id = Array((request.audience.identifier ?? "").utf8)
        for kindID in kindIDs {
            mark(
                TimelineMark.Audience(request.audience), id: id.indices, in: id, appID: app.id, kindID: kindID,
                matching: request.matching, request.reason, at: event.position)
        }
    }

    /// Adds a request to the mark of its target, or to the reload of everyone.
    ///
    /// - Parameters:
    ///   - audience: nil for everyone.
    ///   - id: place of the audience's id in the bytes.
    private mutating func mark(
        _ audience: TimelineMark.Audience?, id: Range<Int>, in bytes: [UInt8], appID: Int32, kindID: Int32?,
        matching: WidgetConfiguration? = nil, _ reason: ReloadReason, at position: EventPosition
    ) {
        if let audience {
            let target = MarkTable.Target(
                audience: audience, appID: appID, kindID: kindID, matching: matching?.canonical)
            return targeted.add(target, id: id, in: bytes, reason, at: position)
        }
        let everyone = Everyone(appID: appID, kindID: kindID, matching: matching)
        let earlier = reloadsOfEveryone[everyone]
        reloadsOfEveryone[everyone] = EveryoneReload(
            appID: appID, kindID: kindID, matching: matching?.canonical, events: 1 + (earlier?.events ?? 0),
            urgency: max(reason.urgency, earlier?.urgency ?? .budgeted), cause: position, reason: reason)
    }

    private func ofEveryone(_ isIncluded: (EveryoneReload) -> Bool) -> [EveryoneReload] {
        reloadsOfEveryone.values.filter(isIncluded).sorted { $0.cause.precedes($1.cause) }
    }
}

// MARK: - Names and values

extension BatchFold {
    /// The registered app with exactly this name.
    func registeredApp(_ name: String) -> RegisteredApp? {
        if let latestApp, Text.equal(latestApp.name, name) { return latestApp }
        guard let app = directory.apps[name], Text.equal(app.name, name) else { return nil }
        return app
    }

    private func kind(
        _ name: String, of app: RegisteredApp, pointer: String, in event: BatchEvent
    ) throws(RejectedEvent) -> RegisteredKind {
        guard let kind = directory.kind(name, of: app), Text.equal(kind.definition.name, name) else {
            if let kind = directory.unreadableKind(name, of: app) {
                throw RejectedEvent(
                    record: event.record, app: app.name, code: "unreadableKind",
                    message: "\(pointer): \(kind.message)", pointer: pointer)
            }
            throw RejectedEvent(
                record: event.record, app: app.name, code: "unknownKind",
                message: "\(pointer): app \(Text.quoted(app.name)) has no kind \(Text.quoted(name))",
                pointer: pointer, unknownName: DirectoryName(app: app.name, kind: name))
        }
        return kind
    }

    /// Id of a kind that a reload names; nil if there is none. A reload needs no definition.
    private func kindID(_ name: String, of app: RegisteredApp) -> Int32? {
        if let unreadable = directory.unreadableKind(name, of: app) { return unreadable.id }
        guard let kind = directory.kind(name, of: app), Text.equal(kind.definition.name, name) else { return nil }
        return kind.id
    }

    /// The registered app and kinds of a request; nil if one is not registered or the app is diverted.
    private mutating func known(_ reload: CompactReload, _ names: RecurringNames) -> KnownKinds? {
        for known in knownKinds where known.app == reload.app && known.kinds == reload.kinds { return known }
        guard let app = registeredApp(names.app(reload.app)), !divertedApps.contains(app.id) else { return nil }
        latestApp = app
        var kindIDs: [Int32?] = [nil]
        if case .kinds(let names) = names.kinds(reload.kinds) {
            kindIDs = names.map { kindID($0, of: app) }
            guard kindIDs.allSatisfy({ $0 != nil }) else { return nil }
        }
        let known = KnownKinds(app: reload.app, kinds: reload.kinds, appID: app.id, kindIDs: kindIDs)
        if knownKinds.count < 16 { knownKinds.append(known) }
        return known
    }
}

extension TimelineMark.Audience {
    /// Nil for everyone.
    fileprivate init?(_ audience: CompactReload.Audience) {
        switch audience {
        case .user: self = .user
        case .device: self = .device
        case .widget: self = .widget
        case .everyone: return nil
        }
    }

    /// Nil for everyone.
    fileprivate init?(_ audience: Audience) {
        switch audience {
        case .user: self = .user
        case .device: self = .device
        case .widget: self = .widget
        case .everyone: return nil
        }
    }
}
