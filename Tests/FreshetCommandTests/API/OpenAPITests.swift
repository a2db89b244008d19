// SPDX-License-Identifier: Apache-2.0

import Foundation
import HTTPTypes
import Hummingbird
import JSON
import Logging
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import FreshetService
@testable import WidgetAPI

/// Agreement between `schemas/openapi.yaml` and the program.
@Suite(.timeLimit(.patience))
struct OpenAPITests {
    private static let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appending(path: "schemas/openapi.yaml")

    private static func document() throws -> JSONValue {
        let outcome = LocatedYAML.read(try String(contentsOf: file, encoding: .utf8), file: "openapi.yaml")
        #expect(outcome.problems.isEmpty, "\(outcome.problems)")
        return try #require(outcome.documents.first).json
    }

    private static let routes = APIService(
        configuration: APIConfiguration(),
        store: WidgetStore(
            pool: PostgresPool(configuration: PostgresConfiguration(connectionString: ""), logger: quietLogger)),
        readiness: Readiness(checks: []), logger: quietLogger
    ).routes.table

    private static let methods = ["get", "put", "post", "delete", "patch", "head", "options"]

    private struct Operation {
        let method: String
        let path: String
        let value: JSONValue
        let parameters: [JSONValue]
    }

    private static func operations(_ document: JSONValue) throws -> [Operation] {
        var operations: [Operation] = []
        for path in try #require(document["paths"]?.objectValue).members {
            for member in try #require(path.value.objectValue).members where methods.contains(member.key) {
                let parameters =
                    (path.value["parameters"]?.arrayValue ?? []) + (member.value["parameters"]?.arrayValue ?? [])
                operations.append(
                    Operation(
                        method: member.key, path: path.key, value: member.value,
                        parameters: parameters.map { resolve($0, document) }))
            }
        }
        return operations
    }

    /// Resolves a `$ref`.
    private static func resolve(_ value: JSONValue, _ document: JSONValue) -> JSONValue {
        guard let reference = value["$ref"]?.stringValue,
            let pointer = JSONPointer(String(reference.dropFirst()))
        else { return value }
        return pointer.tokens.reduce(document) { value, token in value[token] ?? .null }
    }

    @Test("The document lists exactly the router's routes, with their scopes and parameters")
    func routes() throws {
        let document = try Self.document()
        #expect(document["openapi"] == "3.1.0")
        var open = Dictionary(uniqueKeysWithValues: Self.routes.map { ($0.id, $0) })
        for operation in try Self.operations(document) {
            let id = try #require(operation.value["operationId"]?.stringValue)
            guard let route = open.removeValue(forKey: id) else {
                Issue.record("\(id) is not a route")
                continue
            }
            #expect(operation.path == route.template)
            #expect(operation.method == route.method.rawValue.lowercased())
            #expect(operation.value["security"] == [["token": [.string(route.operation.access.scope.rawValue)]]])
            let inPath = operation.parameters.filter { $0["in"] == "path" }.compactMap { $0["name"]?.stringValue }
            let names = route.template.split(separator: "/").filter { $0.hasPrefix("{") }
                .map { String($0.dropFirst().dropLast()) }
            #expect(Set(inPath) == Set(names), "\(id)")
        }
        #expect(open.isEmpty, "not in the document: \(open.keys.sorted())")
    }

    @Test("Every operation has an answer for success, the errors of every route and those of a body")
    func answers() throws {
        for operation in try Self.operations(try Self.document()) {
            let id = try #require(operation.value["operationId"]?.stringValue)
            let answers = try #require(operation.value["responses"]?.objectValue).keys
            for status in ["400", "401", "403", "404", "429", "500", "503"] {
                #expect(answers.contains(status), "\(id) \(status)")
            }
            #expect(answers.contains { $0.hasPrefix("2") }, "\(id)")
            #expect((operation.value["requestBody"] != nil) == answers.contains("415"), "\(id)")
            #expect((operation.value["requestBody"] != nil) == answers.contains("408"), "\(id)")
        }
    }

    @Test("Every reference resolves")
    func references() throws {
        let document = try Self.document()
        var count = 0
        func visit(_ value: JSONValue) {
            switch value {
            case .object(let object):
                if object["$ref"] != nil {
                    count += 1
                    #expect(Self.resolve(value, document) != .null, "\(value)")
                }
                for member in object.members { visit(member.value) }
            case .array(let items): for item in items { visit(item) }
            default: break
            }
        }
        visit(document)
        #expect(count > 100)
    }

    /// The document's schemas in the form that the schema checker takes.
    private static func schema(_ name: String, _ document: JSONValue) throws -> JSONValue {
        func rewrite(_ value: JSONValue) -> JSONValue {
            switch value {
            case .object(let object):
                return .object(
                    JSONObject(
                        object.members.map { member in
                            if member.key == "$ref", let text = member.value.stringValue {
                                return (
                                    key: member.key,
                                    value: .string(text.replacing("#/components/schemas/", with: "#/$defs/"))
                                )
                            }
                            return (key: member.key, value: rewrite(member.value))
                        }))
            case .array(let items): return .array(items.map(rewrite))
            default: return value
            }
        }
        let schemas = rewrite(try #require(document["components"]?["schemas"]))
        guard case .object(var object)? = schemas[name] else { return .null }
        object["$defs"] = schemas
        return .object(object)
    }

    @Test("Examples satisfy their schemas, and the program decodes those of requests")
    func examples() throws {
        let document = try Self.document()
        let schemas = try #require(document["components"]?["schemas"]?.objectValue)
        for member in schemas.members {
            for example in member.value["examples"]?.arrayValue ?? [] {
                let problems = SchemaCheck.problems(of: example, by: try Self.schema(member.key, document))
                #expect(problems == [], "\(member.key)")
            }
        }
        func examples(_ name: String) throws -> [JSONObject] {
            let examples = try #require(schemas[name]?["examples"]?.arrayValue)
            #expect(!examples.isEmpty)
            return examples.compactMap(\.objectValue)
        }
        for var example in try examples("KindDefinition") {
            example["name"] = "K"
            #expect(KindDefinition.validate(.object(example)).errors == [])
        }
        let events: [(String, EventType)] = [
            ("Placement", .widgetPlaced), ("Configured", .widgetConfigured),
            ("EnvironmentChange", .deviceEnvironmentChanged), ("ReloadRequest", .pushReceived),
        ]
        for (name, type) in events {
            for var example in try examples(name) {
                example["app"] = "a"
                if type == .widgetPlaced || type == .widgetConfigured { example["widget"] = "w" }
                if type == .deviceEnvironmentChanged { example["device"] = "d" }
                #expect(throws: Never.self, "\(name)") {
                    _ = try EventDecoder().decode(data: JSONValue.object(example).encoded, of: type)
                }
            }
        }
    }

    @Test("The document lists the program's scopes")
    func scopes() throws {
        let text = try Self.document()["components"]?["securitySchemes"]?["token"]?["description"]?.stringValue ?? ""
        for scope in TokenScope.allCases { #expect(text.contains(scope.rawValue)) }
    }
}
