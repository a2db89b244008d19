import TestSupport
import Testing

@testable import FreshetClient

@Suite(.timeLimit(.patience))
struct AdmissionTests {
    @Test("A call's events are admitted together or not at all; a call beyond the limit is admitted alone")
    func admission() {
        var admission = WidgetCenter.Admission(limit: 10)
        let asked = [8, 3, 2, 1].map { admission.admit($0) }
        #expect(asked == [true, false, true, false])
        #expect(admission.underWay == 10)
        admission.finish(8)
        let again = [9, 8].map { admission.admit($0) }
        #expect(again == [false, true])
        admission.finish(10)
        let large = [50, 1].map { admission.admit($0) }
        #expect(large == [true, false])
        admission.finish(50)
        #expect(admission.underWay == 0)
        admission.add(20)
        let huge = admission.admit(.max)
        #expect(!huge)
    }
}
