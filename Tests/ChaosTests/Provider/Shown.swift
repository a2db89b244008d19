// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetModel

/// Content of a timeline, written by the run's provider and read back by the checker. Every entry carries the
/// timeline's ID, its index and a checksum of all, so that partial or foreign content is noticed.
struct Shown: Hashable, Sendable {
    let version: Int
    let dates: [String]

    struct Broken: Error, CustomStringConvertible {
        let description: String
    }

    /// Entries in the provider's format.
    ///
    /// - Parameter at: A volatile member.
    func entries(of id: TimelineID, at: Int?) -> JSONValue {
        .array(
            dates.enumerated().map { index, date in
                var content = JSONObject()
                content["id"] = .string(id.description)
                content["v"] = .number(JSONNumber(version))
                content["i"] = .number(JSONNumber(index))
                content["n"] = .number(JSONNumber(dates.count))
                content["sum"] = .string(sum(of: id))
                if let at { content["at"] = .number(JSONNumber(at)) }
                return ["date": .string(date), "content": .object(content)]
            })
    }

    private func sum(of id: TimelineID) -> String {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in "\(id) \(version) \(dates.joined(separator: ","))".utf8 {
            hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3
        }
        return String(hash, radix: 16)
    }

    /// Reads stored or published content, `{"entries": […], "policy": …}`.
    init(content: [UInt8], of id: TimelineID) throws(Broken) {
        let document: JSONValue
        do throws(JSONError) {
            document = try JSONValue.parse(content)
        } catch {
            throw Broken(description: "is not JSON: \(error)")
        }
        guard let entries = document["entries"]?.arrayValue, !entries.isEmpty, document["policy"] != nil else {
            throw Broken(description: "has no entries or no policy")
        }
        var dates: [String] = []
        var versions: Set<Int> = []
        var sums: Set<String> = []
        for (index, entry) in entries.enumerated() {
            guard let content = entry["content"], let date = entry["date"]?.stringValue,
                let version = content["v"]?.numberValue?.int64, let sum = content["sum"]?.stringValue
            else { throw Broken(description: "entry \(index) differs from the provider's") }
            guard content["id"]?.stringValue == id.description else {
                throw Broken(description: "entry \(index) is of timeline \(content["id"]?.stringValue ?? "?")")
            }
            guard content["i"]?.numberValue?.int64 == Int64(index),
                content["n"]?.numberValue?.int64 == Int64(entries.count)
            else { throw Broken(description: "entry \(index) of \(entries.count) is of another place or number") }
            dates.append(date)
            versions.insert(Int(version))
            sums.insert(sum)
        }
        guard let version = versions.first, versions.count == 1, sums.count == 1 else {
            throw Broken(description: "mixes versions \(versions.sorted())")
        }
        self.init(version: version, dates: dates)
        guard sums.first == sum(of: id) else { throw Broken(description: "its sum is wrong") }
    }

    init(version: Int, dates: [String]) {
        self.version = version
        self.dates = dates
    }
}
