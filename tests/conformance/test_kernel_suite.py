"""jupyter_kernel_test against our kernel, which Jupyter knows as python3."""

import jupyter_kernel_test as jkt


class WarmcellTests(jkt.KernelTests):
    kernel_name = "python3"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    code_generate_error = "raise"
    code_execute_result = [
        {"code": "1+2+3", "result": "6"},
        {"code": "[n*n for n in range(1, 4)]", "result": "[1, 4, 9]"},
    ]
    # What is not claimed yet is left out, and skipped: completion, inspection, is_complete,
    # history, the pager, display data, clear_output.


class WelcomeTests(jkt.IopubWelcomeTests):
    kernel_name = "python3"
    support_iopub_welcome = True
