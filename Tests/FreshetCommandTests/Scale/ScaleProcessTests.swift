import TestSupport
import Testing
import WidgetModel

@testable import freshet

/// The scale commands, small, as people run them.
@Suite(.tags(.process), .serialized, .timeLimit(.minutes(5)))
struct ScaleProcessTests {
    private func load(
        _ arguments: [String], status: Int32 = 0, twice: Bool = false
    ) async throws -> (out: String, err: String) {
        try await withDatabase { database in
            let environment = ["FRESHET_POSTGRES_URL": database.connectionString]
            var answer: (out: String, err: String) = ("", "")
            for isLast in twice ? [false, true] : [true] {
                let process = try FreshetProcess(["load"] + arguments + ["--json"], environment: environment)
                let exit = try await process.end(within: .seconds(120))
                answer = (process.standardOutput, process.standardError)
                #expect(exit == FreshetProcess.Exit(status: isLast ? status : 0, isSignal: false), "\(answer.err)")
                guard isLast, status == 0 else { continue }
                let report = try JSONValue.parse(answer.out)
                #expect(SchemaCheck.problems(of: report, by: try SchemaCheck.schema("load-report.json")) == [])
            }
            return answer
        }
    }

    @Test("fill makes as many timelines as it says, and refuses a database that holds some")
    func fill() async throws {
        let report = try JSONValue.parse(try await load(["fill", "--timelines", "2500", "--content-bytes", "100"]).out)
        #expect(report["timelines"]?.numberValue?.int64 == 2_500 && report["widgets"]?.numberValue?.int64 == 2_500)
        let refusal = try await load(["fill", "--timelines", "10"], status: 1, twice: true)
        #expect(refusal.err.contains("holds timelines already"))
    }

    @Test("growth and churn report their curves")
    func curves() async throws {
        let growth = try JSONValue.parse(
            try await load(["growth", "--sizes", "200,600", "--rounds", "2", "--batch", "50"]).out)
        #expect(growth["curves"]?["claim"]?.arrayValue?.count == 2)
        let churn = try JSONValue.parse(
            try await load(["churn", "--timelines", "200", "--passes", "2", "--batch", "100", "--hold"]).out)
        #expect(churn["passes"]?.arrayValue?.count == 2)
    }

    @Test("a reload of a shared kind reaches all of its timelines")
    func shared() async throws {
        let report = try JSONValue.parse(
            try await load(["shared", "--widgets", "3000", "--configurations", "150", "--reloads", "2"]).out)
        #expect(report["lost"] == 0 && report["distinctTimelines"]?.numberValue?.int64 == 150)
        #expect(report["reloadMilliseconds"]?.arrayValue?.count == 2)
    }

    @Test("capacity plans, and the same seed plans the same")
    func capacity() async throws {
        let plans = try await [1, 1].asyncMap { _ in
            let process = try FreshetProcess(["capacity", "--widgets", "1000000", "--json"])
            #expect(try await process.end(within: .seconds(60)).status == 0)
            return try JSONValue.parse(process.standardOutput)
        }
        #expect(plans[0] == plans[1] && plans[0]["databases"]?.numberValue?.int64 == 1)
    }
}

extension Sequence {
    fileprivate func asyncMap<Value>(_ transform: (Element) async throws -> Value) async throws -> [Value] {
        var values: [Value] = []
        for element in self { values.append(try await transform(element)) }
        return values
    }
}
