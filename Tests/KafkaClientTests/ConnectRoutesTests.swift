import TestSupport
import Testing

@testable import KafkaClient

@Suite("Detours to brokers", .timeLimit(.patience))
struct ConnectRoutesTests {
    @Test(
        arguments: [
            ("", [:]), ("41001=52001", [41001: 52001]), ("41001=52001,41002=52002", [41001: 52001, 41002: 52002]),
            ("41001", [:]), ("x=1,2=70000,3=4", [3: 4]),
        ] as [(String, [UInt16: UInt16])])
    func pairsOfPorts(text: String, routes: [UInt16: UInt16]) {
        #expect(ConnectRoutes.read(text) == routes)
    }
}
