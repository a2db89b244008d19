// SPDX-License-Identifier: Apache-2.0

import JSON
package import WidgetModel

/// Names of the apps and kinds of several messages in one array of bytes. They recur from message to message, so each
/// is made a text once, and requests refer to it by its index.
package struct RecurringNames: Sendable {
    /// Names of apps; those that are not among the first few may be there several times.
    private var apps: [String] = []
    /// Named kinds of requests, likewise.
    private var kinds: [KindScope] = []
    /// Places of the first names in the bytes.
    private var knownApps: [(place: Range<Int>, index: Int)] = []
    private var knownKinds: [(place: Range<Int>, index: Int)] = []
    /// The latest type of an event, and a place of its name.
    private var latestType: (place: Range<Int>, type: EventType)?

    /// Number of names that others are compared with.
    private static let limit = 8

    /// Index of all kinds of an app.
    static let allKinds = -1

    /// The name of an app at an index.
    package func app(_ index: Int) -> String { apps[index] }

    /// The kinds of a request at an index.
    package func kinds(_ index: Int) -> KindScope { index == Self.allKinds ? .all : kinds[index] }

    /// Reads the name of an app, and returns its index.
    mutating func app(_ reader: inout JSONReader) throws(JSONError) -> Int {
        let token = try reader.stringToken()
        if token.isPlain, let known = Self.index(of: token.range, among: knownApps, in: reader.bytes) { return known }
        apps.append(try reader.identifier(token))
        if token.isPlain, knownApps.count < Self.limit { knownApps.append((token.range, apps.count - 1)) }
        return apps.count - 1
    }

    /// Reads the name of a kind, and returns the index of the scope of this kind.
    mutating func kind(_ reader: inout JSONReader) throws(JSONError) -> Int {
        let token = try reader.stringToken()
        if token.isPlain, let known = Self.index(of: token.range, among: knownKinds, in: reader.bytes) { return known }
        let index = add(.kinds([try reader.identifier(token)]))
        if token.isPlain, knownKinds.count < Self.limit { knownKinds.append((token.range, index)) }
        return index
    }

    /// Adds a scope, and returns its index.
    mutating func add(_ scope: KindScope) -> Int {
        kinds.append(scope)
        return kinds.count - 1
    }

    private static func index(
        of name: Range<Int>, among known: [(place: Range<Int>, index: Int)], in bytes: [UInt8]
    ) -> Int? {
        for other in known
        where other.place.count == name.count
            && Text.equal(bytes.span.extracting(name), bytes.span.extracting(other.place))
        {
            return other.index
        }
        return nil
    }

    /// The type whose name is at a place of the bytes, if the topic carries it.
    mutating func type(
        _ place: Range<Int>, in bytes: [UInt8], _ attribute: EventAttribute, topic: EventTopic
    ) throws(EventError) -> EventType {
        let name = bytes.span.extracting(place)
        if let latestType, latestType.type.topic == topic,
            Text.equal(name, bytes.span.extracting(latestType.place))
        {
            return latestType.type
        }
        let type = try attribute.type(name, topic: topic)
        latestType = (place, type)
        return type
    }

    /// The request that refers to these names.
    ///
    /// - Parameter bytes: bytes of the messages.
    package func request(_ reload: CompactReload, in bytes: [UInt8]) -> ReloadRequest {
        ReloadRequest(
            app: apps[reload.app], audience: reload.audience.with(Text.ascii(bytes.span.extracting(reload.id))),
            kinds: kinds(reload.kinds), reason: reload.reason)
    }
}

/// A request for reloads of any configuration as a small value: the id of its audience is left in the bytes of the
/// messages, and its app and kinds are indices into their ``RecurringNames``.
package struct CompactReload: Hashable, Sendable {
    package enum Audience: Sendable {
        case user, device, widget, everyone

        /// The audience with this id, which is unused for everyone.
        func with(_ id: String) -> WidgetModel.Audience {
            switch self {
            case .user: .user(id)
            case .device: .device(id)
            case .widget: .widget(id)
            case .everyone: .everyone
            }
        }
    }

    package let app: Int
    package let kinds: Int
    package let audience: Audience
    package let reason: ReloadReason
    /// Place of the id in the bytes, which is printable ASCII; empty for everyone.
    package let id: Range<Int>
}

/// A reload request or a change, as an event's type says.
package enum EventContent: Sendable {
    case reload(CompactReload)
    /// Any other event, or a request that does not fit in the small value.
    case event(FreshetEvent)
}

/// A decoded message.
package struct DecodedMessage: Sendable {
    /// Empty unless attributes are kept, like ``source``.
    package var id: String
    package var source: String
    /// Nil also for a type of event whose time does not matter, unless attributes are kept.
    package var time: Timestamp?
    /// W3C trace context, from the `ce_traceparent` or `traceparent` header.
    package var traceparent: String?
    package var content: EventContent
}
