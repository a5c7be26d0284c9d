"""jupyter_kernel_test against our kernel, which Jupyter knows as python3."""

import jupyter_kernel_test as jkt


class WarmcellTests(jkt.KernelTests):
    kernel_name = "python3"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    completion_samples = [{"text": "zi", "matches": {"zip"}}]
    complete_code_samples = ["1", "print('hello, world')", "def f(x):\n  x*2\n\n\n"]
    incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2"]
    invalid_code_samples = ["import = 7q"]
    code_generate_error = "raise"
    code_execute_result = [
        {"code": "1+2+3", "result": "6"},
        {"code": "[n*n for n in range(1, 4)]", "result": "[1, 4, 9]"},
    ]
    code_display_data = [
        {"code": "display({'text/html': '<b>test</b>'}, raw=True)", "mime": "text/html"},
        {"code": "display({'text/latex': '$\\\\frac{1}{2}$'}, raw=True)", "mime": "text/latex"},
    ]
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "zip"
    code_clear_output = "clear_output()"
    # code_page_something is left out: payloads are deprecated, and nothing in plain Python asks a
    # front end for a pager.


class WelcomeTests(jkt.IopubWelcomeTests):
    kernel_name = "python3"
    support_iopub_welcome = True
