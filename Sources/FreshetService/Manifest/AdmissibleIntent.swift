// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetModel

/// An intent without the parts that the definition of a kind does not allow. The rules are those of the model, so that
/// a manifest with the intent can be applied.
struct AdmissibleIntent {
    /// Nil if the whole intent is left out.
    private(set) var definition: IntentDefinition?
    /// The parts that were left out, with their places and the reasons.
    private(set) var notices: [String] = []
    private let name: String

    /// - Parameters:
    ///   - intent: an intent of a manifest.
    ///   - name: name of its kind.
    init(_ intent: JSONValue, name: String) {
        self.name = name
        var kind: JSONValue = [
            "name": .string(name), "providerURL": "https://localhost", "placeholder": [:], "intent": intent,
        ]
        // Each round removes a part, and may reveal references to it.
        while true {
            let (valid, errors) = KindDefinition.validate(kind)
            definition = valid?.intent
            if valid != nil { return }
            var places: Set<[String]> = []
            for error in errors {
                let place = kind.removablePart(at: JSONPointer(error.pointer)?.tokens ?? [])
                let notice = "\(words(place, of: kind)) is left out: \(error.message)"
                if places.insert(place).inserted { notices.append(notice) }
            }
            // Without its name or its intent nothing is left.
            if places.contains(where: { $0.count < 2 }) { return }
            kind = kind.removing(places)
        }
    }

    /// A place in a kind as `Intent.parameter: member`.
    private func words(_ place: [String], of kind: JSONValue) -> String {
        guard place.count > 2 else { return place.count < 2 ? name : "\(name): \(place[1])" }
        let part = kind.value(at: place.prefix(3))
        if place[1] == "supportedCombinations", let names = part?.arrayValue {
            return "\(name): the combination \(names.compactMap(\.stringValue).joined(separator: ","))"
        }
        guard place[1] == "parameters" else { return "\(name): \(place.dropFirst().joined(separator: "/"))" }
        let parameter = "\(name).\(part?["name"]?.stringValue ?? place[2])"
        return place.count == 3 ? parameter : "\(parameter): \(place.dropFirst(3).joined(separator: "/"))"
    }
}

extension JSONValue {
    /// Members without which their object has no meaning.
    private static let requiredMembers: Set<String> = ["name", "type", "title", "prompt", "hasExactly"]

    fileprivate func value(at place: some Sequence<String>) -> JSONValue? {
        place.reduce(self) { value, token in
            switch value {
            case .array(let elements)?: Int(token).flatMap { elements.indices.contains($0) ? elements[$0] : nil }
            case .object(let object)?: object[token]
            default: nil
            }
        }
    }

    /// The smallest part of a kind that can be left out because of an error.
    fileprivate func removablePart(at tokens: [String]) -> [String] {
        var place: [String] = []
        while place.count < tokens.count, value(at: place + [tokens[place.count]]) != nil {
            place.append(tokens[place.count])
        }
        switch place.dropFirst().first {
        case "localizations": return place
        // A combination without one of its parameters would be another one.
        case "supportedCombinations": return Array(place.prefix(3))
        default:
            while let last = place.last, Self.requiredMembers.contains(last) { place.removeLast() }
            return place
        }
    }

    fileprivate func removing(_ places: Set<[String]>, from place: [String] = []) -> JSONValue {
        switch self {
        case .array(let elements):
            .array(
                elements.enumerated().map { (element: $0.element, place: place + ["\($0.offset)"]) }
                    .filter { !places.contains($0.place) }.map { $0.element.removing(places, from: $0.place) })
        case .object(let object):
            .object(
                JSONObject(
                    unique: object.members.filter { !places.contains(place + [$0.key]) }
                        .map { ($0.key, $0.value.removing(places, from: place + [$0.key])) }))
        default: self
        }
    }
}
