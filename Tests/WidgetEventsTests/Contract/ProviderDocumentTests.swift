// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing
import WidgetModel

@testable import WidgetEvents

/// Agreement between `schemas/provider.openapi.yaml` and the program.
@Suite(.tags(.schemas), .timeLimit(.patience))
struct ProviderDocumentTests {
    private let document: JSONValue

    init() throws { document = try ContractFiles.yaml("provider.openapi.yaml") }

    private func operation(_ endpoint: ProviderEndpoint) throws -> JSONValue {
        try ContractFiles.resolved(try #require(document["paths"]?[endpoint.path]?["post"]), in: document)
    }

    private func examples(_ content: JSONValue?) throws -> (schema: JSONValue, values: [JSONValue]) {
        let json = try #require(content?["content"]?["application/json"])
        let values = try #require(json["examples"]?.objectValue).members.compactMap { $0.value["value"] }
        #expect(!values.isEmpty)
        return (try #require(json["schema"]), values)
    }

    @Test("The documented paths are those that Freshet requests")
    func paths() throws {
        let paths = try #require(document["paths"]?.objectValue).keys
        #expect(Set(paths) == Set(ProviderEndpoint.allCases.map(\.path)))
    }

    private static let batches: [ProviderEndpoint] = [.timelines, .snapshot, .placeholder]

    @Test("Documented requests equal Freshet's", arguments: batches)
    func requests(endpoint: ProviderEndpoint) throws {
        let (schema, values) = try examples(try operation(endpoint)["requestBody"])
        for value in values {
            #expect(SchemaCheck.problems(of: value, by: schema) == [])
            let requests = try #require(value["requests"]?.arrayValue)
            let written: JSONValue
            if endpoint == .placeholder {
                let kind = try #require(value["kind"]?.stringValue)
                let items = try requests.map { request in
                    PlaceholderIdentity(
                        kind: kind, family: try #require(WidgetFamily(name: request["family"]?.stringValue ?? "")),
                        locale: try #require(request["environment"]?["locale"]?.stringValue),
                        timeZone: request["environment"]?["timeZone"]?.stringValue)
                }
                written = Self.withoutIDs(try JSONValue.parse(ProviderEndpoint.encode(placeholders: items, kind: kind)))
                #expect(written == Self.withoutIDs(value))
            } else {
                let items = try requests.map(requestedTimeline)
                #expect(try JSONValue.parse(ProviderEndpoint.encode(timelines: items)) == value)
            }
        }
    }

    /// IDs of placeholders are derived from the other members.
    private static func withoutIDs(_ value: JSONValue) -> JSONValue {
        guard var object = value.objectValue else { return value }
        object["requests"] = .array(
            (object["requests"]?.arrayValue ?? []).map { request in
                guard var request = request.objectValue else { return request }
                request["id"] = nil
                return .object(request)
            })
        return .object(object)
    }

    @Test("Freshet can read the documented answers", arguments: batches)
    func answers(endpoint: ProviderEndpoint) throws {
        let (schema, values) = try examples(try operation(endpoint)["responses"]?["200"])
        for value in values {
            #expect(SchemaCheck.problems(of: value, by: schema) == [])
            let list = endpoint == .timelines ? "timelines" : "\(endpoint.rawValue)s"
            let ids = try #require(value[list]?.arrayValue).compactMap {
                $0["id"]?.stringValue.flatMap { TimelineID($0) }
            }
            #expect(!ids.isEmpty)
            switch endpoint {
            case .timelines:
                let response = try ProviderResponse.parse(
                    value.encoded, requested: ids.map { RequestedTimeline($0) })
                #expect(response.outcomes.count == ids.count && response.foreignCount == 0)
                for outcome in response.outcomes {
                    switch outcome {
                    case .success: break
                    case .failure(let failure): #expect(failure.reason == .provider, "\(failure)")
                    }
                }
            default:
                let response =
                    try endpoint == .snapshot
                    ? FallbackResponse.snapshots(value.encoded, requested: ids)
                    : FallbackResponse.placeholders(value.encoded, requested: ids)
                #expect(response.outcomes.count == ids.count && response.foreignCount == 0)
                for outcome in response.outcomes {
                    switch outcome {
                    case .success: break
                    case .failure(let failure): #expect(failure.reason == .provider, "\(failure)")
                    }
                }
            }
        }
    }

    private static let questions: [ProviderEndpoint] = [.options, .defaults]

    @Test("Documented requests for options and defaults equal Freshet's", arguments: questions)
    func configurationRequests(endpoint: ProviderEndpoint) throws {
        let (schema, values) = try examples(try operation(endpoint)["requestBody"])
        for value in values {
            #expect(SchemaCheck.problems(of: value, by: schema) == [])
            let context = ConfigurationContext(
                user: try #require(value["user"]?.stringValue),
                family: try #require(WidgetFamily(name: value["family"]?.stringValue ?? "")),
                environment: try WidgetEnvironment(
                    locale: value["environment"]?["locale"]?.stringValue ?? "",
                    timeZone: value["environment"]?["timeZone"]?.stringValue ?? ""),
                values: try value["values"].map { try WidgetConfiguration($0) } ?? .empty)
            let kind = try #require(value["kind"]?.stringValue)
            let written =
                endpoint == .defaults
                ? context.encode(kind: kind)
                : OptionsQuestion(
                    parameter: try #require(value["parameter"]?.stringValue), search: value["search"]?.stringValue,
                    context: context
                ).encode(kind: kind)
            #expect(try JSONValue.parse(written) == value)
        }
    }

    @Test("Freshet can read the documented answers with options and defaults", arguments: questions)
    func configurationAnswers(endpoint: ProviderEndpoint) throws {
        let (schema, values) = try examples(try operation(endpoint)["responses"]?["200"])
        let card = IntentParameter(
            name: "card", displayName: "Card", type: .custom(typeName: "Card"), hasDynamicOptions: true,
            hasDynamicDefault: true)
        for value in values {
            #expect(SchemaCheck.problems(of: value, by: schema) == [])
            if endpoint == .options {
                #expect(try IntentOptions(value.encoded, of: card).sections.isEmpty == false)
            } else {
                let intent = IntentDefinition(title: "Card", parameters: [card])
                #expect(try intent.dynamicDefaults(value.encoded, family: .systemSmall).value == value["values"])
            }
        }
    }

    @Test("Examples of headers satisfy their schemas and belong to the signed request", .tags(.schemas))
    func signatureHeaders() throws {
        let signed = try #require(SchemaCheck.schema("provider/signature.example.json")["headers"])
        for endpoint in ProviderEndpoint.allCases {
            let parameters = try #require(try operation(endpoint)["parameters"]?.arrayValue)
            #expect(parameters.count == 4)
            for parameter in parameters {
                let name = try #require(parameter["name"]?.stringValue)
                let example = try #require(parameter["example"])
                #expect(SchemaCheck.problems(of: example, by: try #require(parameter["schema"])) == [])
                if name != "traceparent" { #expect(signed[name] == example) }
            }
        }
    }
}
