// SPDX-License-Identifier: Apache-2.0

import JSON

/// Endpoint of a provider: the last part of the path.
package enum ProviderEndpoint: String, CaseIterable, Hashable, Sendable {
    /// Whole timelines.
    case timelines
    /// An entry for each timeline without content, needed as fast as possible.
    case snapshot
    /// Content without user data for widgets that have no other content.
    case placeholder
    /// Options of a parameter.
    case options
    /// Defaults of a new widget's parameters.
    case defaults

    /// Path to append to the provider's URL.
    package var path: String { "/\(rawValue)" }
}

extension ProviderEndpoint {
    /// A timeline to ask for, with its id, which is costly to compute.
    package typealias Item = (id: TimelineID, identity: TimelineIdentity)

    /// Body of a request for timelines or snapshots, as ``TimelineRequestBody`` makes it.
    package static func encode(timelines items: [Item]) -> [UInt8] {
        var body = TimelineRequestBody(count: items.count)
        for (id, identity) in items { body.append(id, identity) }
        return body.finish()
    }

    /// Body of a request for placeholders: `{"kind", "requests": [{"id", "family", "environment"}]}`.
    ///
    /// - Parameter items: placeholders of the kind.
    package static func encode(placeholders items: [PlaceholderIdentity], kind: String) -> [UInt8] {
        let requests = items.map { item -> JSONValue in
            var environment: JSONObject = ["locale": .string(item.locale)]
            environment["timeZone"] = item.timeZone.map { .string($0) }
            return [
                "id": .string(item.id.description), "family": .string(item.family.name),
                "environment": .object(environment),
            ]
        }
        return JSONValue.object(["kind": .string(kind), "requests": .array(requests)]).encoded
    }
}

/// Body of a request for timelines or snapshots of any of the app's kinds that share its URL:
/// `{"requests": [{"id", "kind", "configuration", "family"?, "environment"?, "user"?}]}`.
///
/// It leaves out properties that are not in a timeline's identity, so that the answer cannot depend on them. What a
/// timeline has in common with the one before it is copied instead of being encoded again.
package struct TimelineRequestBody {
    private var bytes: [UInt8] = []
    /// Kind of the latest timeline, and the bytes between its id and its configuration.
    private var kind: (name: String, bytes: [UInt8])?
    /// Family and environment of the latest timeline, and the bytes of both members.
    private var family: WidgetFamily?
    private var locale: String?
    private var timeZone: String?
    private var environmentBytes: [UInt8] = []

    private static let id = Array("{\"id\":\"".utf8)
    private static let user = Array(",\"user\":".utf8)

    /// - Parameter count: expected number of timelines.
    package init(count: Int) {
        bytes.reserveCapacity(64 + count * 224)
        bytes.append(contentsOf: "{\"requests\":[".utf8)
    }

    package mutating func append(_ id: TimelineID, _ identity: TimelineIdentity) {
        if kind != nil { bytes.append(UInt8(ascii: ",")) }
        update(identity)
        bytes.append(contentsOf: Self.id)
        bytes.append(addingCapacity: TimelineID.textLength) { id.write(to: &$0) }
        if let kind { bytes.append(contentsOf: kind.bytes) }
        bytes.append(contentsOf: identity.configuration.canonical.utf8)
        bytes.append(contentsOf: environmentBytes)
        if let user = identity.user {
            bytes.append(contentsOf: Self.user)
            bytes.append(json: user)
        }
        bytes.append(UInt8(ascii: "}"))
    }

    /// Ends the body and returns it.
    package mutating func finish() -> [UInt8] {
        bytes.append(contentsOf: "]}".utf8)
        return bytes
    }

    /// Encodes what differs from the timeline before.
    private mutating func update(_ identity: TimelineIdentity) {
        if !Text.equal(kind?.name, identity.kind) {
            var members = Array("\",\"kind\":".utf8)
            members.append(json: identity.kind)
            members.append(contentsOf: ",\"configuration\":".utf8)
            kind = (identity.kind, members)
        }
        guard
            family != identity.family || !Text.equal(locale, identity.locale)
                || !Text.equal(timeZone, identity.timeZone)
        else { return }
        (family, locale, timeZone) = (identity.family, identity.locale, identity.timeZone)
        environmentBytes.removeAll(keepingCapacity: true)
        if let family {
            environmentBytes.append(contentsOf: ",\"family\":".utf8)
            environmentBytes.append(json: family.name)
        }
        guard locale != nil || timeZone != nil else { return }
        environmentBytes.append(contentsOf: ",\"environment\":{".utf8)
        if let locale {
            environmentBytes.append(contentsOf: "\"locale\":".utf8)
            environmentBytes.append(json: locale)
        }
        if let timeZone {
            environmentBytes.append(contentsOf: (locale == nil ? "\"timeZone\":" : ",\"timeZone\":").utf8)
            environmentBytes.append(json: timeZone)
        }
        environmentBytes.append(UInt8(ascii: "}"))
    }
}

/// Identity of a placeholder: all properties that it may depend on, without user data.
package struct PlaceholderIdentity: Hashable, Sendable {
    package let kind: String
    package let family: WidgetFamily
    package let locale: String
    /// Nil if the kind does not vary by time zone.
    package let timeZone: String?

    package init(kind: String, family: WidgetFamily, locale: String, timeZone: String?) {
        self.kind = kind
        self.family = family
        self.locale = locale
        self.timeZone = timeZone
    }

    /// Id of the placeholder in requests and answers, in the form of a timeline's id. Always the same for the same
    /// identity.
    package var id: TimelineID {
        let form: JSONValue = [
            "freshet.placeholder.v1", .string(kind), .string(family.name), .string(locale),
            timeZone.map { .string($0) } ?? .null,
        ]
        return TimelineID(hashOf: form.canonicalBytes)
    }
}

/// Source of the dynamic options and defaults of a kind's parameters.
package protocol ConfigurationProvider: Sendable {
    /// Requests the options of a parameter with `hasDynamicOptions`. The list may be empty.
    func options(
        _ question: OptionsQuestion, of kind: KindDefinition, app: String
    ) async throws(ProviderFailure) -> IntentOptions

    /// Requests the defaults of the parameters with `hasDynamicDefault`. Parameters without a default are absent; the
    /// values fit the definition.
    func defaults(
        _ context: ConfigurationContext, of kind: KindDefinition, app: String
    ) async throws(ProviderFailure) -> WidgetConfiguration
}
