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

    /// Body of a request for timelines or snapshots of any of the app's kinds that share its URL:
    /// `{"requests": [{"id", "kind", "configuration", "family"?, "environment"?, "user"?}]}`.
    ///
    /// It leaves out properties that are not in the timeline's identity, so that the answer cannot depend on them.
    package static func encode(timelines items: [Item]) -> [UInt8] {
        JSONWriter.object(capacity: 64 + items.count * 224) { body in
            body.appendArray("requests") { requests in
                for (id, identity) in items {
                    requests.appendObject { request in
                        request.append("id", id.description)
                        request.append("kind", identity.kind)
                        request.append("configuration", json: identity.configuration.canonical.utf8)
                        request.append("family", identity.family?.name)
                        if identity.locale != nil || identity.timeZone != nil {
                            request.append("environment") {
                                $0.append("locale", identity.locale)
                                $0.append("timeZone", identity.timeZone)
                            }
                        }
                        request.append("user", identity.user)
                    }
                }
            }
        }
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
