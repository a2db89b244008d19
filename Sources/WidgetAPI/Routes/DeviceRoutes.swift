// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import JSON
import Logging
import NIOCore
import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// Routes of devices: their environment, a stream of changes, and those registered for notifications.
extension Routes {
    /// Most widgets in a stream.
    static let widgetLimit = 500
    /// Longest duration of a stream, in seconds.
    static let longestStream = 3_600

    var deviceRoutes: [APIRoute] {
        [
            // The event affects all users' widgets on the device.
            change(
                "changeEnvironment", .put, "devices/{device}/environment", .deviceEnvironmentChanged,
                .app(.widgetsWrite), members: ["environment", "significantTimeChange"]),
            APIRoute(
                "watchDevice", .get, "devices/{device}/events", .own(.widgetsRead), query: ["for"]
            ) { call in
                let device = try call.path("device")
                let seconds = try call.integer("for", in: 1...Self.longestStream, default: Self.longestStream)
                let stream = try stream(of: device, after: call.request.headers[.lastEventID], for: call.caller)
                return respond(stream, for: .seconds(seconds), call)
            },
            APIRoute("listDevices", .get, "users/{user}/devices", .own(.widgetsRead)) { call in
                let devices = try await devices(of: try call.path("user"), for: call.caller)
                return Response(["devices": .array(devices.map(\.json))])
            },
            change(
                "registerDevice", .put, "users/{user}/devices/{device}", .deviceRegistered, members: ["channel"]),
            .change("unregisterDevice", .delete, "users/{user}/devices/{device}") { call in
                let (user, device) = (try call.path("user"), try call.path("device"))
                return try await publish(
                    FreshetEvent(app: call.app, user: user, .device(.unregistered(device: device))), call)
            },
        ]
    }

    /// The devices of a user that are registered for notifications.
    func devices(of user: String, for caller: Caller) async throws -> [Registration] {
        try caller.checkSight(of: user)
        return try await store.query(.listRegistrations(app: caller.app, user: user))
    }

    // MARK: Stream

    /// What each widget of the device shows, first and after each change of content or staleness, and the schedules of
    /// its stacks, which are planned while the stream is open.
    ///
    /// The stream of a device without widgets, or of another user's, stays empty.
    ///
    /// - Parameter known: id of the last event that the client has; it gets only later changes.
    private func stream(of device: String, after known: String?, for caller: Caller) throws(Problem) -> DeviceStream {
        DeviceStream(
            store: store, app: caller.app, device: device, user: caller.user,
            watch: try watch(.stream, [], for: caller), againAfter: changes.patience, known: known)
    }

    /// Sends the stream as server-sent events. It ends with the token, and soon after its key is removed.
    private func respond(_ stream: DeviceStream, for time: Duration, _ call: APICall) -> Response {
        let expiry = call.caller.principal.expiresAt - Timestamp.now()
        let end = ContinuousClock.now + min(time, max(.zero, expiry))
        return Response { writer in
            var stream = stream
            while true {
                guard (try? await call.caller.checkToken()) != nil else { break }
                do {
                    let text = try await stream.takeEvents()
                    try await writer.write(ByteBuffer(string: text.isEmpty ? ": still here\n\n" : text))
                } catch let error as PostgresError {
                    call.context.logger.warning("a stream cannot read the database", metadata: ["error": "\(error)"])
                    try await writer.write(ByteBuffer(string: ": the database does not answer\n\n"))
                }
                let left = ContinuousClock.now.duration(to: end)
                guard left > .zero, await stream.watch.wait(atMost: min(left, patience)) != .ended else { break }
            }
        }
    }
}

extension HTTPField.Name {
    static let lastEventID = Self("Last-Event-ID")!
}

/// State of one stream: what has been sent.
private struct DeviceStream: Sendable {
    let store: WidgetStore
    let app: String
    let device: String
    let user: String?
    let watch: TimelineChanges.Watch
    /// Time after which stacks are wanted again.
    let againAfter: Duration
    /// Id of the last event that the client has of an earlier stream; nil once it was compared.
    var known: String?
    var told: [String: DeviceTimeline] = [:]
    var toldSchedules: Set<DeviceSchedule> = []
    /// Users whose stacks are wanted, and the time after which they are wanted again.
    var wanted: [String: ContinuousClock.Instant] = [:]

    /// Text of the events since the last call; empty for none.
    mutating func takeEvents() async throws -> String {
        let statement = Statements.deviceTimelines(
            app: app, device: device, user: user, limit: Routes.widgetLimit)
        let rows = try await store.query(statement)
        let owners = Set(rows.map(\.user)).union(user.map { [$0] } ?? [])
        try await plan(for: owners)
        let schedules = try await store.query(.deviceSchedules(app: app, device: device, users: Array(owners)))
        let ids = rows.map(\.timelineID) + schedules.map(\.id)
        watch.set(Set(ids.map { .timeline($0) } + owners.map { .user(app: app, user: $0) }))
        let now = Dictionary(rows.map { ($0.widget, $0) }) { $1 }
        let id = Self.id(of: rows, schedules)
        defer {
            told = now
            toldSchedules = Set(schedules)
            known = nil
        }
        var events: [String] = []
        if let known {
            guard known != id else { return "" }
            // It may have widgets that were removed meanwhile.
            events.append(Self.event("widgets", ["widgets": .array(rows.map { .string($0.widget) })]))
        }
        events += rows.filter { told[$0.widget] != $0 }.map { Self.event("timeline", $0.json) }
        events += schedules.filter { !toldSchedules.contains($0) }.map { Self.event("schedule", $0.json) }
        for widget in told.keys.sorted() where now[widget] == nil {
            events.append(Self.event("removed", ["widget": .string(widget)]))
        }
        // The last one completes the state that the id stands for.
        if !events.isEmpty { events[events.count - 1] = "id: \(id)\n\(events[events.count - 1])" }
        return events.joined()
    }

    /// Requests plans of the users' stacks, and repeats it from time to time, so that new stacks are planned and the
    /// plans of the others do not lapse.
    private mutating func plan(for users: Set<String>) async throws {
        let now = ContinuousClock.now
        for user in users where wanted[user].map({ $0 <= now }) ?? true {
            for stack in try await store.stacks(of: user, app: app) where Text.equal(stack.device, device) {
                let key = StackPlan.Key(app: app, user: user, device: device, stack: stack.name)
                try await store.wantSchedule(key)
            }
            wanted[user] = now + againAfter
        }
    }

    /// Id of the state that a client has been told.
    private static func id(of rows: [DeviceTimeline], _ schedules: [DeviceSchedule]) -> String {
        ContentHash(of: JSONValue.array(rows.map(\.json) + schedules.map(\.json)).encoded).description
    }

    private static func event(_ name: String, _ data: JSONValue) -> String {
        "event: \(name)\ndata: \(String(decoding: data.encoded, as: UTF8.self))\n\n"
    }
}

extension DeviceTimeline {
    fileprivate var json: JSONValue {
        [
            "widget": .string(widget), "kind": .string(kind), "timeline": .string(timelineID.description),
            "revision": .count(revision),
            "etag": .text(hash.map(EntityTags.tag)), "stale": .bool(isStale),
        ]
    }
}

extension DeviceSchedule {
    fileprivate var json: JSONValue {
        [
            "user": .string(user), "stack": .string(stack), "revision": .count(revision),
            "etag": .string(EntityTags.tag(revision: revision)),
        ]
    }
}
