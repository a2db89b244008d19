// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import WidgetEvents

/// All parts of version 1 by name: schemas of input and output, without descriptions.
struct Contract: Sendable {
    var parts: [ContractRule.Direction: [String: JSONValue]] = [:]

    subscript(direction: ContractRule.Direction) -> [String: JSONValue] { parts[direction] ?? [:] }

    /// Contract of the current documents.
    static func current() throws -> Contract { try documents.get() }

    /// Read once for all tests.
    private static let documents = Result { try read() }

    private static func read() throws -> Contract {
        var contract = Contract()
        try contract.addTopics()
        try contract.addProvider()
        try contract.addInterface()
        return contract
    }

    private mutating func add(_ direction: ContractRule.Direction, _ name: String, _ schema: JSONValue) throws {
        try #require(parts[direction]?[name] == nil, "\(name) is defined twice")
        parts[direction, default: [:]][name] = Self.essence(schema)
    }

    private mutating func addTopics() throws {
        let document = try ContractFiles.yaml("asyncapi.yaml")
        for operation in try #require(document["operations"]?.objectValue).members {
            let direction: ContractRule.Direction = operation.value["action"] == "receive" ? .reads : .writes
            let value = try ContractFiles.resolved(operation.value, in: document)
            let address = try #require(value["channel"]?["address"]?.stringValue)
            for message in try #require(value["messages"]?.arrayValue) {
                let name = "\(address) \(try #require(message["name"]?.stringValue))"
                try add(direction, "\(name) headers", try #require(message["headers"]))
                try add(direction, "\(name) data", try #require(message["payload"]))
                try add(
                    direction, "\(name) key", message["bindings"]?["kafka"]?["key"] ?? .object(JSONObject()))
            }
        }
    }

    private mutating func addProvider() throws {
        let document = try ContractFiles.yaml("provider.openapi.yaml")
        for path in try #require(document["paths"]?.objectValue).members {
            let name = "POST \(path.key)"
            let operation = try ContractFiles.resolved(try #require(path.value["post"]), in: document)
            let json = { (value: JSONValue?) in value?["content"]?["application/json"]?["schema"] }
            try add(.writes, "\(name) request", try #require(json(operation["requestBody"])))
            try add(.reads, "\(name) answer", try #require(json(operation["responses"]?["200"])))
            for parameter in operation["parameters"]?.arrayValue ?? [] {
                try add(
                    .writes, "\(name) header \(try #require(parameter["name"]?.stringValue))",
                    try #require(parameter["schema"]))
            }
            let statuses = try #require(operation["responses"]?.objectValue).keys.map { JSONValue.string($0) }
            try add(.reads, "\(name) status", .object(JSONObject([(key: "enum", value: .array(statuses))])))
        }
    }

    /// Prefix of the names of the HTTP API's parts.
    static let interface = "API "

    /// The HTTP API, if its document exists.
    private mutating func addInterface() throws {
        let path = "openapi.yaml"
        guard FileManager.default.fileExists(atPath: ContractFiles.folder.appending(path: path).path) else { return }
        let document = try ContractFiles.yaml(path)
        for item in try #require(document["paths"]?.objectValue).members {
            for method in ["get", "put", "post", "delete", "patch"] {
                guard let operation = item.value[method] else { continue }
                let name = "\(Self.interface)\(method.uppercased()) \(item.key)"
                let value = try ContractFiles.resolved(operation, in: document)
                let shared = try ContractFiles.resolved(item.value["parameters"] ?? .array([]), in: document)
                try add(.reads, "\(name) parameters", try Self.parameters(shared, value["parameters"] ?? .array([])))
                for content in value["requestBody"]?["content"]?.objectValue?.members ?? [] {
                    try add(.reads, "\(name) \(content.key)", content.value["schema"] ?? true)
                }
                let responses = try #require(value["responses"]?.objectValue).members
                for response in responses {
                    let contents = response.value["content"]?.objectValue?.members ?? []
                    if contents.isEmpty { try add(.writes, "\(name) \(response.key)", .object(JSONObject())) }
                    for content in contents {
                        try add(
                            .writes, "\(name) \(response.key) \(content.key)", content.value["schema"] ?? true)
                    }
                }
            }
        }
    }

    /// An operation's parameters as members of an object.
    private static func parameters(_ lists: JSONValue...) throws -> JSONValue {
        var properties = JSONObject()
        var required: [JSONValue] = []
        for parameter in lists.flatMap({ $0.arrayValue ?? [] }) {
            let place = try #require(parameter["in"]?.stringValue)
            let name = "\(place) \(try #require(parameter["name"]?.stringValue))"
            properties[name] = parameter["schema"] ?? true
            if parameter["required"] == true { required.append(.string(name)) }
        }
        return ["type": "object", "properties": .object(properties), "required": .array(required)]
    }

    /// Returns the value without titles, descriptions and examples.
    private static func essence(_ schema: JSONValue) -> JSONValue {
        guard case .object(let object) = schema else { return schema }
        var members: [JSONObject.Member] = []
        for member in object.members {
            switch member.key {
            case "title", "description", "example", "examples", "$id", "$schema", "$comment": continue
            case "properties":
                let properties = member.value.objectValue?.members ?? []
                members.append(
                    (
                        key: member.key,
                        value: .object(JSONObject(properties.map { (key: $0.key, value: essence($0.value)) }))
                    ))
            case "oneOf", "anyOf":
                members.append(
                    (key: member.key, value: .array((member.value.arrayValue ?? []).map(essence))))
            case "items", "additionalProperties":
                members.append((key: member.key, value: essence(member.value)))
            default: members.append(member)
            }
        }
        return .object(JSONObject(members))
    }

    // MARK: The lock

    /// The contract in the format of `v1.lock.json`.
    init(lock: JSONValue) throws {
        try #require(lock["version"] == "v1")
        for direction in ContractRule.Direction.allCases {
            for member in try #require(lock[direction.rawValue]?.objectValue).members {
                let schema = try SharedSchemas.expanded(member.value, lock["shared"])
                guard member.key.contains(Self.anyStatus) else {
                    parts[direction, default: [:]][member.key] = schema
                    continue
                }
                for status in try #require(schema.objectValue).members {
                    let name = member.key.replacing(Self.anyStatus, with: " \(status.key)")
                    parts[direction, default: [:]][name] = status.value
                }
            }
        }
    }

    /// In the lock, the place of the status in the name of an operation's responses of one content type.
    private static let anyStatus = " *"

    /// The parts of a direction, with the responses of an operation that share a content type under one name.
    private func grouped(_ direction: ContractRule.Direction) -> JSONObject {
        var grouped = JSONObject()
        for (name, schema) in self[direction].sorted(by: { Text.precedes($0.key, $1.key) }) {
            var words = name.split(separator: " ").map(String.init)
            guard let place = words.firstIndex(where: { Int($0) != nil }) else {
                grouped[name] = schema
                continue
            }
            let status = words[place]
            words[place] = "*"
            let group = words.joined(separator: " ")
            var responses = grouped[group]?.objectValue ?? JSONObject()
            responses[status] = schema
            grouped[group] = .object(responses)
        }
        return grouped
    }

    private init() {}

    /// Every part by its name. A schema that occurs in several places stands once, under `shared`.
    var lock: JSONValue {
        let groups = ContractRule.Direction.allCases.map { (direction: $0, members: grouped($0).members) }
        var shared = SharedSchemas(groups.flatMap { $0.members.map(\.value) })
        var object = JSONObject()
        object["version"] = "v1"
        for group in groups {
            object[group.direction.rawValue] = .object(
                JSONObject(group.members.map { (key: $0.key, value: shared.folded($0.value)) }))
        }
        object["shared"] = shared.table
        return .object(object)
    }

    /// Returns the parts whose names satisfy the condition.
    func only(_ condition: (String) -> Bool) -> Contract {
        var contract = Contract()
        for (direction, schemas) in parts { contract.parts[direction] = schemas.filter { condition($0.key) } }
        return contract
    }

    /// Returns the breaking changes in `newer`.
    func breaches(by newer: Contract) -> [String] {
        var breaches: [String] = []
        for direction in ContractRule.Direction.allCases {
            for (name, schema) in self[direction].sorted(by: { Text.precedes($0.key, $1.key) }) {
                guard let successor = newer[direction][name] else {
                    breaches.append("\(name): is gone")
                    continue
                }
                let found = ContractRule.problems(old: schema, new: successor, direction)
                breaches += found.map { "\(name) \($0)" }
            }
        }
        return breaches
    }
}
