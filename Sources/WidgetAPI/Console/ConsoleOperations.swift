// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import JSON
import NIOCore
import PostgresClient
import ReloadIngest
import WidgetEvents
import WidgetModel
import WidgetStore

extension Console {
    /// Operations of the pages alone: the HTTP API does not serve them.
    static let operations = [
        Operation(id: "consoleStates", access: .app(.operateRead), isAudited: false),
        Operation(id: "consoleStatistics", access: .app(.operateRead), isAudited: false),
        Operation(id: "consoleFindings", access: .app(.operateRead), isAudited: false),
        Operation(id: "consoleManifest", access: .app(.operateRead), isAudited: true),
        Operation(id: "consoleSimulation", access: .app(.operateRead), isAudited: true),
        Operation(id: "consoleForecast", access: .app(.operateRead), isAudited: false),
        Operation(id: "consoleOutages", access: .app(.operateRead), isAudited: false),
        Operation(id: "consoleBudget", access: .app(.operateRead), isAudited: false),
        Operation(id: "consolePreview", access: .app(.operate), isAudited: false),
        Operation(id: "consoleActions", access: .app(.operateRead), isAudited: false),
        Operation(id: "consoleCancel", access: .app(.operate), isAudited: true),
        Operation(id: "consoleStacks", access: .app(.operateRead), isAudited: false),
        Operation(id: "consoleLetters", access: .app(.operateRead), isAudited: false),
        Operation(id: "consoleReplay", access: .app(.operate), isAudited: true),
        Operation(id: "consoleDiscard", access: .app(.operate), isAudited: true),
        Operation(id: "consoleWatch", access: .app(.operateRead), isAudited: false),
    ]

    /// The definitions of a manifest, which must be those of the app.
    func definitions(_ manifest: String, of app: String) throws(Problem) -> [AppDefinition] {
        let apps: [AppDefinition]
        do {
            apps = try configuration.readManifest(manifest)
        } catch {
            throw .unprocessable("/manifest", detail: "\(error)")
        }
        if let other = apps.first(where: { !Text.equal($0.name, app) }) {
            throw .unprocessable("/manifest", detail: "the app \(Text.quoted(other.name)) is not the token's")
        }
        return apps
    }
}

/// Functions that only the console calls.
extension Routes {
    /// Most dead letters in a list.
    static let letterLimit = 200
    /// Most dead letters that one action replays or discards.
    static let actionLimit = 10_000
    /// Interval of the refreshes of a page that changes.
    private static let refreshInterval = Duration.seconds(5)

    // MARK: Kinds

    /// Statistics of the kinds, and the kinds with retired ones.
    func statistics(
        days: Int, for caller: Caller
    ) async throws -> (report: KindReport, kinds: [RegisteredKind]) {
        let rows = try await store.query(.readKindStatistics(app: caller.app, days: days))
        let kinds = try await store.query(.listKinds(app: caller.app)).readable
        return (KindReport(rows, delivery: try await delivery(of: kinds, days: days, for: caller)), kinds)
    }

    /// Number of a kind's timelines, up to a limit, and the mean of their reloads today (UTC), free ones included; nil
    /// without timelines or beyond the limit; and the rest of their budgets.
    func budgetUse(
        of kind: RegisteredKind, for caller: Caller
    ) async throws -> (timelines: Int, average: Double?, left: KindBudget?) {
        let rows = try await store.query(.readKindStatistics(app: caller.app, days: 1))
        let counted = Statements.countTimelines(kindID: kind.id, limit: WidgetStore.timelineCountLimit)
        let timelines = try await store.query(counted).first ?? 0
        let left = try await store.budget(of: kind)
        guard timelines > 0, timelines < WidgetStore.timelineCountLimit else { return (timelines, nil, left) }
        let today = rows.first { Text.equal($0.kind, kind.definition.name) }?.counters ?? KindCounters()
        return (timelines, Double(today.reloaded + today.unchanged) / Double(timelines), left)
    }

    /// Cancels pending reloads of everyone.
    func cancel(_ kind: String, _ note: OperatorNote, for caller: Caller) async throws {
        guard try await store.cancelWork(app: caller.app, kind: kind, note) != nil else { throw Problem.notFound }
    }

    /// Requests a reload of everyone with a kind, and records it.
    func reloadEveryone(_ kind: String, _ note: OperatorNote, for caller: Caller) async throws {
        let request = ReloadRequest(app: caller.app, audience: .everyone, kinds: .kinds([kind]), reason: .operator)
        try await publish(FreshetEvent(request), for: caller)
        try await record(.reload, kind: kind, note, for: caller)
    }

    /// Records an action that was performed. After a failure in between only the audit log has it.
    func record(
        _ name: RecordedAction.Name, kind: String? = nil, _ note: OperatorNote, affected: Int? = nil,
        for caller: Caller
    ) async throws {
        _ = try await store.query(.recordAction(name, app: caller.app, kind: kind, note, affected: affected))
    }

    /// Number of an app's or a kind's timelines, up to a limit, with their present work.
    func operatedWork(
        kind: String?, for caller: Caller
    ) async throws -> (timelines: Int, work: OperatedWork?) {
        let limit = WidgetStore.timelineCountLimit
        let timelines = try await store.query(.countTimelines(app: caller.app, kind: kind, limit: limit)).first ?? 0
        return (timelines, try await store.query(.operatedWork(app: caller.app, kind: kind)).first)
    }

    /// Changes that a manifest's definitions would make, with the old and the new value of each field.
    func differences(
        _ apps: [AppDefinition], for caller: Caller
    ) async throws -> [(
        change: KindChange, notices: [String], fields: [(name: String, old: JSONValue?, new: JSONValue?)]
    )] {
        let changes = try await store.difference(apps)
        let old = try await kinds(for: caller).map(\.kind.definition)
        let new = apps.flatMap(\.kinds)
        return changes.map { change in
            let before = old.first { Text.equal($0.name, change.kind) }?.json().objectValue
            let definition = new.first { Text.equal($0.name, change.kind) }
            let notices = definition?.notices ?? []
            guard let before, let after = definition?.json().objectValue else { return (change, notices, []) }
            let names = before.keys + after.keys.filter { before[$0] == nil }
            return (change, notices, names.filter { before[$0] != after[$0] }.map { ($0, before[$0], after[$0]) })
        }
    }

    // MARK: People

    /// All stacks of a user, explained.
    func stacks(of user: String, for caller: Caller) async throws -> [ExplainedStack] {
        let names = try await store.stacks(of: user, app: caller.app).map(\.name)
        var explained: [ExplainedStack] = []
        for name in Set(names).sorted() { explained += try await stacks(named: name, of: user, for: caller) }
        return explained
    }

    // MARK: Dead letters

    /// Dead letters that wait, or with ended ones.
    func deadLetters(_ filter: DeadLetterFilter, withEnded: Bool) async throws -> [DeadLetterSummary] {
        withEnded
            ? try await store.query(.listAllDeadLetters(filter, limit: Self.letterLimit))
            : try await store.query(.listDeadLetters(filter, limit: Self.letterLimit))
    }

    /// Discards dead letters, or counts those that would be.
    func discard(_ selection: DeadLetterFilter, isRehearsal: Bool) async throws -> Int {
        let filter = selection.withoutWaitingEvents
        return isRehearsal
            ? try await store.query(Statements.countDeadLetters(filter, limit: Self.actionLimit)).first ?? 0
            : try await store.query(.discardDeadLetters(filter, limit: Self.actionLimit)).count
    }

    // MARK: Live parts

    /// Server-sent events `changed` for a page: at every change of the widget's timeline, and at an interval.
    func changes(of widget: String?, for caller: Caller) async throws -> Response {
        var keys: Set<TimelineChanges.Key> = []
        if let widget {
            let statement = Statements.readWidgetTimeline(app: caller.app, widget: widget)
            guard let timeline = try await store.query(statement).first else { throw Problem.notFound }
            keys = [.timeline(timeline.id)]
        }
        let watch = try watch(.stream, keys, for: caller)
        let time = min(.seconds(Self.longestStream), max(.zero, caller.principal.expiresAt - Timestamp.now()))
        let end = ContinuousClock.now + time
        return Response { writer in
            while ContinuousClock.now < end {
                guard await watch.wait(atMost: Self.refreshInterval) != .ended,
                    (try? await caller.checkToken()) != nil
                else { break }
                try await writer.write(ByteBuffer(string: "event: changed\ndata:\n\n"))
            }
        }
    }
}
